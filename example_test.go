package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox"
)

// The order and its event are committed together, or neither is.
func ExampleWrite() {
	confirm := func(ctx context.Context, pool *pgxpool.Pool, order string, total int) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE orders SET status = 'CONFIRMED' WHERE id = $1`, order); err != nil {
				return err
			}
			_, err := outbox.Write(ctx, tx, outbox.Event{
				AggregateType: "Order",
				AggregateID:   order,
				Type:          "order.confirmed.v1",
				Topic:         "order-service.order.confirmed",
				Payload:       map[string]any{"total": total},
			})
			return err
		})
	}
	_ = confirm // with your pool
}

// A writer with the service's settings is made once, and shared. It derives the topics.
func ExampleNewWriter() {
	w, err := outbox.NewWriter(outbox.Config{
		Schema: "sales",
		Topics: outbox.Topics{Service: "order-service"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	write := func(ctx context.Context, tx pgx.Tx) error {
		_, err := w.Write(ctx, tx,
			outbox.Event{AggregateType: "Order", AggregateID: "42", Type: "order.confirmed.v1", Payload: map[string]any{"total": 10}},
			outbox.Event{AggregateType: "Order", AggregateID: "42", Type: "order.shipped.v1", Payload: map[string]any{"parcels": 2}},
		)
		return err
	}
	_ = write // in your transaction
}

// Every driver takes a statement and texts. Run it inside the business transaction.
func ExampleStatement() {
	sql, args, err := outbox.Statement(outbox.Event{
		ID:            uuid.MustParse("0198a0f0-1111-7222-8333-444444444444"),
		AggregateType: "Order",
		AggregateID:   "42",
		Type:          "order.confirmed.v1",
		Topic:         "order-service.order.confirmed",
		Payload:       map[string]any{"total": 10},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sql)
	for i, arg := range args {
		fmt.Printf("$%d = %s\n", i+1, arg)
	}
	// Output:
	// INSERT INTO "outbox_event" (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
	// SELECT e.event_id::uuid, e.aggregate_type, e.aggregate_id, e.event_type, e.payload::jsonb, e.topic, e.partition_key
	// FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) WITH ORDINALITY
	//   AS e(event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, ord)
	// ORDER BY e.ord
	// $1 = {"0198a0f0-1111-7222-8333-444444444444"}
	// $2 = {"Order"}
	// $3 = {"42"}
	// $4 = {"order.confirmed.v1"}
	// $5 = {"{\"total\":10}"}
	// $6 = {"order-service.order.confirmed"}
	// $7 = {"42"}
}

// The topic follows from the types.
func ExampleTopics() {
	topics := outbox.Topics{Service: "product-service"}
	fmt.Println(topics.Topic("Product", "ProductPriceChanged.v1"))
	fmt.Println(topics.Topic("Product", "product.v1"))

	topics.PerAggregate = true
	fmt.Println(topics.Topic("Product", "ProductPriceChanged.v1"))
	// Output:
	// product-service.product.price-changed <nil>
	//  topic cannot be derived: nothing remains of Type "product.v1" without the version and the aggregate's type: name what happened, as in order.confirmed.v1, or set Event.Topic
	// product-service.product <nil>
}

// The envelope carries the id of the row, so consumers can match the payload with the header x-event-id.
func ExampleEnvelope() {
	type OrderConfirmed struct {
		CustomerID  string      `json:"customerId"`
		TotalAmount json.Number `json:"totalAmount"`
	}
	_, args, err := outbox.Statement(outbox.Event{
		ID:            uuid.MustParse("0198a0f0-1111-7222-8333-444444444444"),
		AggregateType: "Order",
		AggregateID:   "42",
		Type:          "order.confirmed.v1",
		Topic:         "order-service.order.confirmed",
		OccurredAt:    time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Payload:       outbox.Envelope{Data: OrderConfirmed{CustomerID: "7", TotalAmount: "10.50"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(args[4])
	// Output:
	// {"{\"eventId\":\"0198a0f0-1111-7222-8333-444444444444\",\"eventType\":\"order.confirmed.v1\",\"occurredAt\":\"2026-03-01T12:00:00.000Z\",\"aggregateType\":\"Order\",\"aggregateId\":\"42\",\"customerId\":\"7\",\"totalAmount\":10.50}"}
}

// What PostgreSQL would refuse is refused before it is sent, with everything that is wrong.
func ExampleInvalidError() {
	_, _, err := outbox.Statement(outbox.Event{
		AggregateType: "Order",
		AggregateID:   "42",
		Type:          "order.noted.v1",
		Topic:         "order service",
		Payload:       map[string]string{"note": "a\x00b"},
	})
	var invalid *outbox.InvalidError
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			fmt.Println(p)
		}
	}
	// Output:
	// event 0: Topic: has the character " " at byte 5: use ASCII letters, digits, '.', '-' and '_'
	// event 0: Payload: has the character U+0000 at byte 10: PostgreSQL cannot store it: remove it, or encode the value, for example as base64
}
