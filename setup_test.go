package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// contract is the table as services have it: nothing more may be required.
const contract = `CREATE TABLE outbox_event (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id       uuid         NOT NULL UNIQUE,
    aggregate_type text         NOT NULL,
    aggregate_id   text         NOT NULL,
    event_type     text         NOT NULL,
    payload        jsonb        NOT NULL,
    topic          text         NOT NULL,
    partition_key  text         NOT NULL,
    created_at     timestamptz  NOT NULL DEFAULT now(),
    published_at   timestamptz
);
CREATE INDEX ix_outbox_event_unpublished ON outbox_event(id) WHERE published_at IS NULL;
CREATE TABLE orders (id text PRIMARY KEY);`

// setup gives a database of the test's own with the contract's table and a business table.
func setup(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t, pgtest.Empty).Pool(t)
	run(t, pool, contract)
	return pool
}

func run(t *testing.T, db execer, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // by then the context of the test has ended
		if err := tx.Rollback(context.Background()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Error(err)
		}
	})
	return tx
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, tx outbox.Tx, events ...outbox.Event) []uuid.UUID {
	t.Helper()
	ids, err := outbox.Write(t.Context(), tx, events...)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// query returns the first column of a query's rows as text.
func query(t *testing.T, db querier, sql string, args ...any) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

// confirmed is a valid event.
func confirmed() outbox.Event {
	return outbox.Event{
		AggregateType: "Order",
		AggregateID:   "42",
		Type:          "order.confirmed.v1",
		Topic:         "order-service.order.confirmed",
		Payload:       map[string]int{"total": 10},
	}
}

func withPayload(payload any) outbox.Event {
	e := confirmed()
	e.Payload = payload
	return e
}

func numbered(n int) []outbox.Event {
	events := make([]outbox.Event, n)
	for i := range events {
		events[i] = confirmed()
		events[i].Type = fmt.Sprintf("order.changed-%d.v1", i)
	}
	return events
}

func newWriter(t *testing.T, cfg outbox.Config) *outbox.Writer {
	t.Helper()
	w, err := outbox.NewWriter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
