// Package inbox is the receiving side of an outbox: at-least-once delivery becomes "handled once".
//
// [Process] remembers an event id in the transaction of what its handler writes: both are committed, or neither is. A repeat is skipped, and said to be one.
//
//	tx, err := pool.Begin(ctx)
//	...
//	handled, err := inbox.Process(ctx, tx, "billing", id, func(ctx context.Context) error {
//		_, err := tx.Exec(ctx, `UPDATE account SET balance = balance - $1 WHERE id = $2`, total, account)
//		return err
//	})
//	...
//	err = tx.Commit(ctx)
//
// [Handlers] has a typed function for each event type, [NewProcessor] runs them, and a [Runner] takes the records of a Kafka consumer through it: the records of
// one key in their order, those of different keys side by side. An offset is committed when everything up to it is committed in the database. kafka.NewConsumer
// makes the whole of it.
//
// # Once
//
// Once is meant for what the handler writes with the transaction that it is given. What it does elsewhere, such as a call to another service, may happen again
// when the transaction is not committed. An event id is remembered for each consumer's name, as long as retention says; a record that is delivered after that is
// handled again.
package inbox
