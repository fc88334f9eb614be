// Package devkafka runs Apache Kafka itself for tests and benchmarks: one broker or three, as plain Java processes on the loopback
// interface, without a container engine.
//
// The jars come from Maven, once, into a cache folder. Java 17 or newer and Maven must be installed; with OUTBOX_KAFKA_LIBS naming a
// folder of jars, Java alone is enough. Every [Node] can be killed, stopped, paused and started again on its old port and data, and
// on Linux none outlives the process that started it.
package devkafka
