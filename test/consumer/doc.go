//go:build integration

// Package consumer holds the tests that kill consumers: groups of processes that share the topics of a real Kafka and write to a real PostgreSQL.
//
// KAFKA_BROKERS names the brokers, host:port separated by commas; without it the tests start one of their own. OUTBOX_TEST_SEED is the seed of the faults, which
// every test prints, and OUTBOX_TEST_CONSUMER_EVENTS how many events flow (default 20,000). They run with the build tag integration.
package consumer
