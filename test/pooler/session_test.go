//go:build integration

package pooler_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/internal/devbouncer"
	"github.com/outbox-relay/outbox/relay"
)

// leftSQL lists what a client would find in a session that others have used. The pooler itself keeps some settings apart for each client.
const leftSQL = `SELECT concat_ws(', ',
    (SELECT string_agg(name || '=' || setting, '; ') FROM pg_settings WHERE source = 'session'
        AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings')),
    (SELECT string_agg(statement, '; ') FROM pg_prepared_statements WHERE name <> ''),
    (SELECT string_agg(relname, '; ') FROM pg_class WHERE pg_my_temp_schema() = relnamespace),
    (SELECT string_agg(channel, '; ') FROM pg_listening_channels() channel),
    (SELECT string_agg(mode, '; ') FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'))`

// The pool has one connection, so whoever comes next gets the session that the relay has used.
func TestNothingOfTheRelayReachesTheNextClient(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{PoolSize: 1})
	f.db.Exec(t, "ALTER DATABASE "+f.db.Name+" SET datestyle = 'SQL, DMY'")
	e := f.start(t, f.url(), relay.Config{})
	other := connect(t, f.url()+"&default_query_exec_mode=exec")
	check := func(when string) {
		t.Helper()
		var left, style string
		if err := other.QueryRow(t.Context(), leftSQL).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if err := other.QueryRow(t.Context(), "SELECT current_setting('DateStyle')").Scan(&style); err != nil {
			t.Fatal(err)
		}
		if left != "" || style != "SQL, DMY" {
			t.Errorf("%s the next client finds %q and DateStyle %q, want nothing and its own", when, left, style)
		}
	}
	for i := range 50 {
		f.insert(t, topic, keyName(i%7))
		check("while the relay works")
	}
	if _, stderr, code := f.outbox(t, "status"); code != 0 {
		t.Errorf("outbox status ended with %d: %s", code, stderr)
	}
	if _, stderr, code := f.outbox(t, "migrate", "up"); code != 0 {
		t.Errorf("outbox migrate up ended with %d: %s", code, stderr)
	}
	check("after the commands")
	f.awaitAllPublished(t)
	e.stop()
	check("after the relay's end")
	f.checkOrder(t)
}

// Others are not as tidy. What they leave in the session must not harm the relay, the commands or a writer.
func TestWhatOthersLeaveInTheSessionDoesNoHarm(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{PoolSize: 1})
	other := connect(t, f.url()+"&default_query_exec_mode=exec")
	for _, dirt := range []string{
		"SET search_path = ''",
		"SET default_transaction_isolation = 'serializable'",
		"SET enable_indexscan = off", "SET enable_seqscan = off",
		"SET bytea_output = 'escape'", "SET IntervalStyle = 'iso_8601'", "SET extra_float_digits = -10", "SET xmloption = 'document'",
		"SET TimeZone = 'Asia/Kolkata'", "SET DateStyle = 'SQL, DMY'",
		"SET lc_messages = 'C'", "SET row_security = off", "SET timezone_abbreviations = 'India'",
		"CREATE TEMP TABLE outbox_event (id bigint, event_id uuid, published_at timestamptz)",
		"CREATE TEMP TABLE source (id uuid)", "CREATE TEMP TABLE lane (id uuid)",
	} {
		if _, err := other.Exec(t.Context(), dirt); err != nil {
			t.Fatalf("%s: %v", dirt, err)
		}
	}
	f.start(t, f.url(), relay.Config{})
	writer, err := outbox.NewWriter(outbox.Config{Schema: "public"})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		err := pgx.BeginFunc(t.Context(), connect(t, f.url()+"&default_query_exec_mode=exec"), func(tx pgx.Tx) error {
			_, err := writer.Write(t.Context(), tx, event("order-1"))
			return err
		})
		if err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	f.awaitAllPublished(t)
	f.checkOrder(t)
	for _, args := range [][]string{{"status"}, {"keys", "list"}, {"migrate", "status"}, {"migrate", "up"}} {
		if _, stderr, code := f.outbox(t, args...); code != 0 {
			t.Errorf("outbox %s ended with %d: %s", args, code, stderr)
		}
	}
}
