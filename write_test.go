package outbox_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox"
)

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func TestEventIsStoredWithItsDefaults(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	tx := begin(t, pool)
	ids := write(t, tx, confirmed())
	commit(t, tx)
	got := query(t, pool, `SELECT concat_ws('|', event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key,
		created_at BETWEEN now() - interval '1 hour' AND now(), published_at IS NULL) FROM outbox_event`)
	want := []string{ids[0].String() + `|Order|42|order.confirmed.v1|{"total": 10}|order-service.order.confirmed|42|t|t`}
	if !slices.Equal(got, want) {
		t.Errorf("rows:\n%q, want\n%q", got, want)
	}
	if v := ids[0].Version(); v != 7 {
		t.Errorf("the id is a UUID of version %d, want 7", v)
	}
}

// valtimo-platform/valtimo-backend-libraries#1069: created_at is the same for all events of a transaction, so only the id can order them.
func TestEventsOfOneCallGetTheirIDsInTheOrderGiven(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	tx := begin(t, pool)
	const n = 2000
	var ids []uuid.UUID
	ids = append(ids, write(t, tx, numbered(n)...)...)
	ids = append(ids, write(t, tx, confirmed())...)
	commit(t, tx)
	want := make([]string, len(ids))
	for i, id := range ids {
		want[i] = id.String()
	}
	if got := query(t, pool, `SELECT event_id::text FROM outbox_event ORDER BY id`); !slices.Equal(got, want) {
		t.Error("the rows are not in the order of the returned ids")
	}
	types := query(t, pool, `SELECT event_type FROM outbox_event ORDER BY id LIMIT $1`, n)
	for i, e := range numbered(n) {
		if types[i] != e.Type {
			t.Fatalf("event %d is of type %s, want %s", i, types[i], e.Type)
		}
	}
	if got := query(t, pool, `SELECT count(DISTINCT created_at)::text FROM outbox_event`); got[0] != "1" {
		t.Errorf("%s values of created_at, want 1: this test is about a tie", got[0])
	}
}

// A tie in the sort, or ids drawn before it, would pass for a few rows by chance; so the rows are given against every natural order.
func TestEventsAgainstTheOrderOfTheirKeysKeepTheOrderGiven(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	tx := begin(t, pool)
	var events []outbox.Event
	var want []string
	for i := 300; i > 0; i-- {
		e := confirmed()
		e.ID = uuid.MustParse(fmt.Sprintf("00000000-0000-7000-8000-%012d", i))
		events = append(events, e)
		want = append(want, e.ID.String())
	}
	write(t, tx, events...)
	commit(t, tx)
	if got := query(t, pool, `SELECT event_id::text FROM outbox_event ORDER BY id`); !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got[:3], want[:3])
	}
}

type noTx struct{ t *testing.T }

func (n noTx) Exec(_ context.Context, sql string, _ ...any) (pgconn.CommandTag, error) {
	n.t.Errorf("statement was sent: %s", sql)
	return pgconn.CommandTag{}, nil
}

func (n noTx) QueryRow(_ context.Context, sql string, _ ...any) pgx.Row {
	n.t.Fatalf("query was sent: %s", sql)
	return nil
}

func (n noTx) Commit(context.Context) error {
	n.t.Error("the transaction was committed")
	return nil
}

func TestNoEventsNoStatement(t *testing.T) {
	t.Parallel()
	if ids, err := outbox.Write(t.Context(), noTx{t}); ids != nil || err != nil {
		t.Errorf("got %v, %v, want nothing", ids, err)
	}
}

func TestARefusedEventSendsNothing(t *testing.T) {
	t.Parallel()
	bad := confirmed()
	bad.Topic = "not a topic"
	bad.Headers = map[string]string{"trace": "1"}
	if _, err := outbox.Write(t.Context(), noTx{t}, confirmed(), bad); err == nil {
		t.Error("no error")
	}
}

func TestARolledBackTransactionLeavesNeitherRow(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	func() {
		defer func() { _ = recover() }()
		tx := begin(t, pool)
		defer func() { _ = tx.Rollback(t.Context()) }()
		run(t, tx, `INSERT INTO orders VALUES ('42')`)
		write(t, tx, confirmed())
		panic("between the write and the commit")
	}()
	got := query(t, pool, `SELECT concat((SELECT count(*) FROM orders), (SELECT count(*) FROM outbox_event))`)
	if got[0] != "00" {
		t.Errorf("orders and events: %s, want 00", got[0])
	}
}

func TestARolledBackSavepointTakesItsEventsAlong(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	tx := begin(t, pool)
	kept := write(t, tx, confirmed())
	savepoint, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(t, savepoint, confirmed())
	if err := savepoint.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	commit(t, tx)
	if got := query(t, pool, `SELECT event_id::text FROM outbox_event`); !slices.Equal(got, []string{kept[0].String()}) {
		t.Errorf("events %v, want %v", got, kept)
	}
}

// Poolers and users choose other ways to send a statement; each encodes the arrays differently.
func TestEveryExecModeOfPgxStoresTheSame(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	run(t, pool, `ALTER TABLE outbox_event ADD COLUMN headers jsonb`)
	const text = `{"a": "b\\\" ' \\\\ {},NULL ü😀"}`
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			cfg := pool.Config().ConnConfig.Copy()
			cfg.DefaultQueryExecMode = mode
			conn, err := pgx.ConnectConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			e := withPayload([]byte(text))
			e.PartitionKey, e.Headers = `NULL`, map[string]string{`q"\`: `'{}`}
			ids := write(t, tx, confirmed(), e)
			commit(t, tx)
			got := query(t, pool, `SELECT concat_ws('|', payload, partition_key, headers) FROM outbox_event WHERE event_id = $1`, ids[1])
			want := []string{text + `|NULL|{"q\"\\": "'{}"}`}
			if !slices.Equal(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestAnyIdentifierMayNameTheTable(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	run(t, pool, `CREATE SCHEMA "Sales; ""x"; ALTER TABLE outbox_event SET SCHEMA "Sales; ""x";
		ALTER TABLE "Sales; ""x".outbox_event RENAME TO "Out.box ""é"; ALTER TABLE "Sales; ""x"."Out.box ""é" ADD COLUMN headers jsonb`)
	tx := begin(t, pool)
	w := newWriter(t, outbox.Config{Schema: `Sales; "x`, Table: `Out.box "é`})
	e := confirmed()
	e.Headers = map[string]string{"trace": "1"}
	if _, err := w.Write(t.Context(), tx, e); err != nil {
		t.Fatal(err)
	}
	commit(t, tx)
	if got := query(t, pool, `SELECT count(*)::text FROM "Sales; ""x"."Out.box ""é"`); got[0] != "1" {
		t.Errorf("%s rows, want 1", got[0])
	}
}

// A key that passed through an encoder would be quoted, trimmed or folded (risingwavelabs/risingwave#10389).
func TestPartitionKeyIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	tx := begin(t, pool)
	keys := []string{"ord-1", "42", "0198A0F0-0000-7000-8000-00000000ABCD", `a"b`, "trailing ", " ", "tab\tnewline\n", `{"a",\}`, "ключ😀"}
	var events []outbox.Event
	for _, key := range keys {
		byKey, byAggregate := confirmed(), confirmed()
		byKey.PartitionKey, byAggregate.AggregateID = key, key
		events = append(events, byKey, byAggregate)
	}
	write(t, tx, events...)
	got := query(t, tx, `SELECT partition_key FROM outbox_event ORDER BY id`)
	for i, key := range keys {
		if got[2*i] != key || got[2*i+1] != key {
			t.Errorf("keys %q and %q, want %q", got[2*i], got[2*i+1], key)
		}
	}
}
