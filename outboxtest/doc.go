// Package outboxtest is for the tests of services that write and receive events. It looks at what a transaction has written, publishes what is committed, and
// handles what is in Kafka: each of them done when its call returns, so that a test neither polls nor waits.
//
//	brokers := outboxtest.Kafka(t)
//	...                                                                // the service places an order, in a transaction
//	outboxtest.RequireWritten(t, tx, outboxtest.Want{Type: "order.placed.v1", Key: "order-1"})
//	...                                                                // commits it
//	outboxtest.Drain(t, pool, brokers)                                 // and now it is in Kafka
//	outboxtest.RequireConsumed(t, processor, brokers, "shop.order")    // and now it is handled
//
// The database is the test's own: PostgreSQL, migrated by `outbox migrate up` or [migrate.Up]. Whatever goes wrong besides what is asked for ends the test with
// a message that says what to do.
//
// [migrate.Up]: https://pkg.go.dev/github.com/outbox-relay/outbox/migrate#Up
package outboxtest
