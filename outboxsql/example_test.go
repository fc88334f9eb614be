package outboxsql_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/outboxsql"
)

// The order and its event are committed together, or neither is.
func ExampleWrite() {
	confirm := func(ctx context.Context, db *sql.DB, order string, total int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()

		if _, err := tx.ExecContext(ctx, `UPDATE orders SET status = 'CONFIRMED' WHERE id = $1`, order); err != nil {
			return err
		}
		_, err = outboxsql.Write(ctx, tx, outbox.Event{
			AggregateType: "Order",
			AggregateID:   order,
			Type:          "order.confirmed.v1",
			Topic:         "order-service.order.confirmed",
			Payload:       map[string]any{"total": total},
		})
		if err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = confirm // with your database
}

// A writer is made once, and shared.
func ExampleNewWriter() {
	w, err := outboxsql.NewWriter(outbox.Config{
		Schema: "sales",
		Topics: outbox.Topics{Service: "order-service"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	write := func(ctx context.Context, tx *sql.Tx) error {
		_, err := w.Write(ctx, tx, outbox.Event{
			AggregateType: "Order",
			AggregateID:   "42",
			Type:          "order.confirmed.v1", // goes to order-service.order.confirmed
			Payload:       outbox.Envelope{Data: map[string]any{"total": 10}},
		})
		return err
	}
	_ = write // in your transaction
}
