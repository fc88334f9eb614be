// Package relay is the engine that takes unpublished events from a [Source], hands them to a [Publisher] in the order of their keys,
// and settles what Kafka has acknowledged. It knows neither SQL nor Kafka.
package relay
