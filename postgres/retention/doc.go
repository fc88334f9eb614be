// Package retention deletes what is old from a source in PostgreSQL: settled events, dead ones, and the traces of operators' work. A [Retention] does so beside a relay, in
// the background and under constant load; a [Pruner] when it is told to, and it creates and drops the partitions of a table that has them. Both work over a pool in small
// transactions. A relay works without it, and it works without a relay.
package retention
