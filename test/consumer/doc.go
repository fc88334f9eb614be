//go:build integration

// Package consumer holds the tests that kill consumers, and take away what they stand on: groups of processes that share the topics of a real Kafka and write to a real
// PostgreSQL. The judge is always the same: each event's effect is in the database once, those of a key in their order, and nothing that is missing is missing in silence.
//
//	once       members are killed, frozen, stopped and cut off until the last event is handled
//	servers    brokers and the database are, on three brokers; the seed decides who assigns partitions
//	database   a database that goes in the middle of a handler, and a commit whose answer is lost
//	rebalance  handlers that are slower than a drain or a session; a stop without Kafka
//	offsets    records that retention has removed, topics that are made again, partitions that are added
//	bad        what nobody can handle, and letters that their topic does not take
//	letters    dead letters, ours and others', listed, shown, sent back and deleted
//
// KAFKA_BROKERS names the brokers, host:port separated by commas; without it the tests start one of their own. OUTBOX_TEST_SEED is the seed of the faults, which
// every test prints, and OUTBOX_TEST_CONSUMER_EVENTS how many events flow (default 20,000). They run with the build tag integration.
package consumer
