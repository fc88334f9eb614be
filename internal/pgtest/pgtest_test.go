package pgtest_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const insert = `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
	VALUES (gen_random_uuid(), 'Order', '1', 'order.confirmed.v1', '{}', 't', '1')`

func TestDatabasesAreMigratedAndApart(t *testing.T) {
	t.Parallel()
	a, b := pgtest.New(t), pgtest.New(t)
	a.Exec(t, insert)
	if n := count(t, b, "SELECT count(*) FROM outbox_event"); n != 0 {
		t.Errorf("an event of one database is in the other: %d", n)
	}
	for _, db := range []*pgtest.DB{a, b} {
		if n := count(t, db, "SELECT count(*) FROM outbox.lane WHERE source = $1", db.Source); n != migrate.DefaultLanes {
			t.Errorf("the source has %d lanes, want %d", n, migrate.DefaultLanes)
		}
	}
	if a.Source == b.Source || a.Source == uuid.Nil {
		t.Errorf("sources %s and %s: want two of their own", a.Source, b.Source)
	}
}

func TestAnEmptyDatabaseHasNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	n := count(t, db, `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')`)
	if n != 0 {
		t.Errorf("%d relations in an empty database", n)
	}
}

func TestAConfigurationOfTheTestsOwnIsUsed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Migrated(migrate.Config{Table: "shop.events", Lanes: 3}))
	if n := count(t, db, "SELECT count(*) FROM outbox.lane WHERE source = $1", db.Source); n != 3 {
		t.Errorf("%d lanes, want 3", n)
	}
	if n := count(t, db, "SELECT count(*) FROM shop.events"); n != 0 {
		t.Errorf("%d events in a new table", n)
	}
}

func TestADatabaseHasTheEncodingAskedFor(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Encoded("LATIN1"))
	if n := count(t, db, "SELECT (getdatabaseencoding() = 'LATIN1')::integer"); n != 1 {
		t.Error("the database has another encoding")
	}
}

func TestTheDatabaseIsDroppedAtTheEnd(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("user", func(t *testing.T) {
		db := pgtest.New(t)
		name = db.Name
		db.Pool(t).Ping(t.Context())
	})
	if n := count(t, pgtest.New(t, pgtest.Empty), "SELECT count(*) FROM pg_database WHERE datname = $1", name); n != 0 {
		t.Errorf("database %s is still there", name)
	}
}

func count(t *testing.T, db *pgtest.DB, sql string, args ...any) (n int) {
	t.Helper()
	if err := db.Conn(t).QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}
