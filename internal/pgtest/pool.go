package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/migrate"
)

// Exec runs a statement over a test's pool and returns how many rows it was about.
func Exec(t testing.TB, db *pgxpool.Pool, sql string, args ...any) int {
	t.Helper()
	tag, err := db.Exec(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return int(tag.RowsAffected())
}

// One returns the one value that a query gives.
func One[T any](t testing.TB, db *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// Reconfigured returns a pool of the same server and database with other settings.
func Reconfigured(t testing.TB, db *pgxpool.Pool, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg := db.Config()
	change(cfg)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// AsRelay returns a pool of the same database for a role that may do what a relay does, and no more; settling is the right to the table by which it settles.
func AsRelay(t testing.TB, db *pgxpool.Pool, settling string) *pgxpool.Pool {
	t.Helper()
	role := Role(t, db)
	Exec(t, db, fmt.Sprintf(`DO $do$ BEGIN
GRANT USAGE ON SCHEMA outbox TO %[1]s;
GRANT SELECT ON TABLE outbox_event TO %[1]s;
GRANT SELECT ON SEQUENCE outbox_event_id_seq TO %[1]s;
GRANT `+settling+` ON TABLE outbox_event TO %[1]s;
GRANT SELECT ON TABLE outbox.migration, outbox.source, outbox.pause, outbox.job TO %[1]s;
GRANT UPDATE (first_published_at) ON TABLE outbox.source TO %[1]s;
GRANT SELECT, UPDATE ON TABLE outbox.lane, outbox.request TO %[1]s;
GRANT SELECT, INSERT, UPDATE ON TABLE outbox.dead_event TO %[1]s;
GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE outbox.relay, outbox.parked_key, outbox.held_topic, outbox.failure TO %[1]s;
END $do$`, role))
	return As(t, db, role)
}

// Role makes a role that may connect, and drops it after the test.
func Role(t testing.TB, db *pgxpool.Pool) string {
	t.Helper()
	role := "relay_" + strings.ToLower(rand.Text()[:12])
	Exec(t, db, "CREATE ROLE "+role+" LOGIN PASSWORD 'of-a-test'")
	t.Cleanup(func() {
		ctx := context.Background()
		_, err := db.Exec(ctx, "DROP OWNED BY "+role)
		if err == nil {
			_, err = db.Exec(ctx, "DROP ROLE "+role)
		}
		if err != nil {
			t.Errorf("drop the role of the test: %v", err)
		}
	})
	return role
}

// As returns a pool of the same database for such a role.
func As(t testing.TB, db *pgxpool.Pool, role string) *pgxpool.Pool {
	t.Helper()
	return Reconfigured(t, db, func(c *pgxpool.Config) {
		c.ConnConfig.User, c.ConnConfig.Password = role, "of-a-test"
	})
}

// Partitioned makes a database whose table is docs/partitions.md makes it, with the first partitions that the test names.
func Partitioned(t testing.TB, column string, bounds ...string) *pgxpool.Pool {
	t.Helper()
	db := New(t, Empty)
	unique := "UNIQUE (event_id, " + column + "), PRIMARY KEY (id)"
	if column != "id" {
		unique = "UNIQUE (event_id, " + column + "), PRIMARY KEY (id, " + column + ")"
	}
	db.Exec(t, `
CREATE TABLE outbox_event (
    id bigint GENERATED ALWAYS AS IDENTITY, event_id uuid NOT NULL, aggregate_type text NOT NULL, aggregate_id text NOT NULL, event_type text NOT NULL,
    payload jsonb NOT NULL, topic text NOT NULL, partition_key text NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz, `+unique+`
) PARTITION BY RANGE (`+column+`);
CREATE INDEX ix_outbox_event_unpublished ON outbox_event (id) WHERE published_at IS NULL;`)
	for i, b := range bounds {
		low, high, _ := strings.Cut(b, "..")
		db.Exec(t, fmt.Sprintf(`CREATE TABLE outbox_event_%d PARTITION OF outbox_event FOR VALUES FROM ('%s') TO ('%s') WITH (autovacuum_vacuum_scale_factor=0.02)`, i, low, high))
	}
	if _, err := migrate.Up(t.Context(), db.Conn(t), migrate.Config{}); err != nil {
		t.Fatal(err)
	}
	return db.Pool(t)
}
