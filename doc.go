// Package outbox writes events into a PostgreSQL table within the transaction of the business change, so that both are committed or
// neither is. A relay then brings every committed event to Kafka, in order, soon.
//
//	tx, err := pool.Begin(ctx)
//	...
//	_, err = tx.Exec(ctx, `UPDATE orders SET status = 'CONFIRMED' WHERE id = $1`, order)
//	...
//	_, err = outbox.Write(ctx, tx, outbox.Event{
//		AggregateType: "Order",
//		AggregateID:   order,
//		Type:          "order.confirmed.v1",
//		Topic:         "order-service.order.confirmed",
//		Payload:       confirmed,
//	})
//	...
//	err = tx.Commit(ctx)
//
// [Write] takes a transaction of pgx; package outboxsql takes one of database/sql; [Statement] and [Prepared] serve every other driver.
// A pool or a connection does not compile: an event that is written outside the business transaction can be lost, or tell of what never
// happened.
//
// # What Kafka will hold
//
// The record's key is the partition key, its value the payload, its headers x-event-id, x-event-type and the event's own headers.
// PostgreSQL stores the payload as jsonb: the keys of objects come back in another order, of a repeated key the last one stays, blanks between
// values go, and every digit of a number stays. So a signature must be made over something else than the payload's text.
//
// # Order
//
// The events of one call are stored in the order they are given, and so published if they share topic and partition key. Across
// transactions the order of a key is the order of the commits when the writers of the key are serialised: call Write after the statement that
// locks the aggregate's row or compares its version.
//
// # Refusals
//
// PostgreSQL gives up a whole transaction after one statement that fails. Everything that it would refuse in an event is therefore refused
// before anything is sent, all problems in one [InvalidError]; the transaction goes on as if Write had not been called. The database is
// taken to be encoded in UTF8.
package outbox
