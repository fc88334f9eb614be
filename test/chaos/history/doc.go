// Package history judges what a relay has done, from three witnesses that know nothing of each other: the ledger of the writers (what was
// committed, and what was not), the records of the topics from offset 0, and the rows of the table at the end.
//
// # What is wrong
//
// Each event has a sequence number within its stream, a topic and partition key, from 1 on, in commit order. Of a stream's records:
//
//	first deliveries   1 2 3 4      in Kafka in this order, without a gap; else the event behind the gap has TURNED, and is
//	                                LOST if what is missing never comes
//	a re-run           5 6 7 5 6 7  a relay has published again what was not settled: REPEATS, each to be explained by a fault during which
//	                                the event was unpublished
//	a straggler        5 6 7 5 8    a repeat from which the stream does not climb again, step by step: an old record that somebody sent who had
//	                                lost the right to; a consumer that takes the last one for the newest is wrong for a while, or for ever.
//	                                Only a relay or broker that was frozen with the record in its hands may do this (at-least-once)
//
// A record of a transaction that was rolled back, or that no writer knows, is wrong whatever happened; so is a settled row whose event is not
// in Kafka, a stream in two partitions, and a key that is parked although every event was good.
package history
