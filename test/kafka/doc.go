//go:build integration

// Package kafka holds the tests that need Apache Kafka itself: what the product relies on, and the relay from end to end.
//
// KAFKA_BROKERS names the brokers, host:port separated by commas; without it the tests start one of their own with
// [github.com/outbox-relay/outbox/internal/devkafka]. A broker that cannot be had fails the tests. They run with the build tag integration.
package kafka
