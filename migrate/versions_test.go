package migrate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
)

func TestAChangedMigrationIsRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := db.Conn(t)
	mustExec(t, c, "UPDATE outbox.migration SET checksum = 'other' WHERE version = 1")
	_, err := migrate.Up(t.Context(), c, migrate.Config{})
	if !errors.Is(err, migrate.ErrChanged) || !strings.Contains(err.Error(), "001_state") {
		t.Errorf("up: %v", err)
	}
	st, err := migrate.GetStatus(t.Context(), c, migrate.Config{})
	if err != nil || !errors.Is(st.Err(), migrate.ErrChanged) {
		t.Errorf("status: %v, %v", err, st.Err())
	}
}

func TestANewerSchemaIsRefusedByUpAndAcceptedByARelay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := db.Conn(t)
	mustExec(t, c, "INSERT INTO outbox.migration (version, name, checksum) VALUES (900, 'future', 'x')")
	before := catalog(t, c)
	_, err := migrate.Up(t.Context(), c, migrate.Config{Table: "other"})
	if !errors.Is(err, migrate.ErrNewer) || !strings.Contains(err.Error(), "900_future") {
		t.Errorf("up: %v", err)
	}
	diffLines(t, "a refused up changed the catalog", catalog(t, c), before)
	st, err := migrate.GetStatus(t.Context(), c, migrate.Config{})
	if err != nil || !errors.Is(st.Schema, migrate.ErrNewer) || st.Err() != nil {
		t.Errorf("status: %v, %v, %v", err, st.Schema, st.Err())
	}
}

func TestStatusSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	c := db.Conn(t)
	before := catalog(t, c)
	st, err := migrate.GetStatus(t.Context(), c, migrate.Config{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := migrate.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Pending) != len(all) || len(st.Applied) != 0 || !slices.Equal(codes(st.Differences), []string{"e:table-missing"}) || st.Source != nil {
		t.Errorf("of an empty database: %+v", st)
	}
	diffLines(t, "asking changed the catalog", catalog(t, c), before)

	r := mustUp(t, c, migrate.Config{Lanes: 5})
	st, err = migrate.GetStatus(t.Context(), c, migrate.Config{})
	if err != nil || st.Err() != nil {
		t.Fatalf("after up: %v, %v", err, st.Err())
	}
	if len(st.Pending) != 0 || st.Source.ID != r.Source || st.Source.Lanes != 5 || st.Applied[0].AppliedAt.IsZero() {
		t.Errorf("after up: %+v", st)
	}
}

func TestStatusNamesTheCommandThatHelps(t *testing.T) {
	t.Parallel()
	all, err := migrate.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ prepare, table, want string }{
		{"SELECT 1", "", "nothing here yet: run outbox migrate up"},
		{"SELECT 1", "orders.outbox_event", "nothing here yet: run outbox migrate up --table orders.outbox_event"},
		{"SELECT 1", `"it's"`, `nothing here yet: run outbox migrate up --table 'public."it'\''s"'`},
		{outboxTable, "", fmt.Sprintf("the schema outbox lacks %d migrations, from 001_state on: run outbox migrate up", len(all))},
		{printed(t), "other", "there is no table public.other: run outbox migrate up --table public.other"},
		{printed(t) + "DELETE FROM outbox.source", "", "table public.outbox_event is not registered as a source: run outbox migrate up"},
		{printed(t) + "CREATE TABLE orders (id int)", "orders", "table public.orders is not an outbox table: it lacks event_id, aggregate_type, " +
			"aggregate_id, event_type, payload, topic, partition_key, created_at, published_at; name the right one, " +
			"or a new name for outbox migrate up to make it"},
	} {
		conn := pgtest.New(t, pgtest.Empty).Conn(t)
		mustExec(t, conn, c.prepare)
		st, err := migrate.GetStatus(t.Context(), conn, migrate.Config{Table: c.table})
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Err(); err == nil || err.Error() != c.want {
			t.Errorf("of %q after %.40s…:\ngot  %v\nwant %s", c.table, c.prepare, err, c.want)
		}
	}
}

// outboxTable makes the contract's table and nothing else, as the migration of a service does.
const outboxTable = `CREATE TABLE outbox_event (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id uuid NOT NULL UNIQUE,
	aggregate_type text NOT NULL, aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb NOT NULL, topic text NOT NULL,
	partition_key text NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz)`

func printed(t *testing.T) string {
	t.Helper()
	sql, err := migrate.Print(migrate.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return sql
}
