// Command bench measures the relay against the algorithm that services use otherwise, against another library, and against itself under
// worse conditions, on a real PostgreSQL (fsync on) and a real Kafka
// (one broker, 12 partitions, acks=all) that it starts itself. See docs/benchmarks.md.
//
//	go run . [drain|live|memory|onekey|held|watermill|relays|takeover|idle|large|all] [flags]
//
// What is compared runs in turns, A B A B, on the same servers, and each figure is also given as the ratio within the pair: on a machine
// that other work disturbs, the ratio holds where the figures do not. Every run is verified before its figure counts: each event of the
// ledger is in the topic exactly once, in the order of its key, and the table says that it is published.
package main
