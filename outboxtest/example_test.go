package outboxtest_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/outboxsql"
	"github.com/outbox-relay/outbox/outboxtest"
)

// What a transaction has written is looked at before it ends, so a test can roll back and leave nothing behind.
func ExampleRequireWritten() {
	confirm := func(ctx context.Context, tx pgx.Tx, order string, total int) error { // the service
		_, err := outbox.Write(ctx, tx, outbox.Event{
			AggregateType: "Order", AggregateID: order, Type: "order.confirmed.v1", Topic: "order-service.order",
			Payload: outbox.Envelope{Data: map[string]any{"total": total}},
		})
		return err
	}
	test := func(t *testing.T, pool *pgxpool.Pool) {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		if err := confirm(t.Context(), tx, "order-17", 42); err != nil {
			t.Fatal(err)
		}
		outboxtest.RequireWritten(t, tx, outboxtest.Want{
			Type: "order.confirmed.v1", Topic: "order-service.order", Key: "order-17", Payload: `{"total": 42}`,
		})
	}
	_ = test // with your database
}

func ExampleRequireWrittenSQL() {
	test := func(t *testing.T, db *sql.DB) {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		_, err = outboxsql.Write(t.Context(), tx, outbox.Event{
			AggregateType: "Order", AggregateID: "order-17", Type: "order.confirmed.v1", Topic: "order-service.order", Payload: map[string]any{"total": 42},
		})
		if err != nil {
			t.Fatal(err)
		}
		outboxtest.RequireWrittenSQL(t, tx, outboxtest.Want{Type: "order.confirmed.v1", Key: "order-17"})
	}
	_ = test // with your database
}

// From a commit to another service's handler, without waiting for anything.
func ExampleDrain() {
	test := func(t *testing.T, pool *pgxpool.Pool, processor *inbox.Processor[pgx.Tx]) {
		brokers := outboxtest.Kafka(t)
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := outbox.Write(t.Context(), tx, outbox.Event{
				AggregateType: "Order", AggregateID: "order-17", Type: "order.confirmed.v1", Topic: "order-service.order", Payload: map[string]any{"total": 42},
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		outboxtest.Drain(t, pool, brokers)
		outboxtest.RequireConsumed(t, processor, brokers, "order-service.order")
	}
	_ = test // with your database and your handlers
}

// What must fail is looked at by the test.
func ExampleConsume() {
	test := func(t *testing.T, processor *inbox.Processor[pgx.Tx], brokers []string) {
		done := outboxtest.Consume(t, processor, brokers, "order-service.order")
		if len(done.Failed) != 1 || !inbox.IsPermanent(done.Failed[0].Err) {
			t.Errorf("failed: %v, want one record, for good", done.Failed)
		}
	}
	_ = test // with your handlers and your brokers
}
