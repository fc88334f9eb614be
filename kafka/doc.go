// Package kafka is what the product knows of Kafka: the [Publisher] that hands events to it, the classes of its errors, and the look at
// its topics. It is the only package that imports franz-go.
//
// # From an event to an ack
//
//	Publish ──▶ admit ──▶ send ──▶ client ──▶ broker
//	              │  ▲                 │
//	    topic not │  │ partition       ▼
//	    looked at │  │ free again    promise ──▶ queue ──▶ loop ──▶ done
//	              ▼  │                                      │
//	          pending, waiting ◀────────────────────────────┘ rejected: isolate
//
// One session is the life of one client. Its mutex guards everything but the queue; its loop is the only goroutine that calls done.
//
// # Invariants
//
//   - A record is planned for a partition before it is produced, so a partition can be held back without asking the client.
//   - While records are being buffered no request leaves the process, and before requests leave again every failure that happened in the
//     meantime is known. So a record never overtakes an earlier one of its key that failed in between; where that cannot be mended any
//     more the client is destroyed before the record has left.
//   - A broker's rejection never names the culprit: the partition is held back until nothing of it is outstanding, and what failed is
//     sent again in halves until one event fails alone. Only that one is the event's fault.
//   - The client is never asked for a topic whose partitions and size limit were not looked at. When they change, the topic waits
//     until nothing of it is outstanding, and goes on with the new ones and another client.
//   - A client's first record of a topic goes alone: it makes the client load the topic's partitions.
//   - Destroy resets the sockets before anything else. What is buffered, in the client, in TLS or in the kernel, never leaves.
//
// # Failure
//
// Everything transient is the client's to retry, for as long as it takes. What it gives back is decided by the table in classes.go.
// An error that the table does not know, or that says the producer's identity is lost, ends the session: what is outstanding is
// done with [relay.ClassUnknown], and [Publisher.Open] makes a new client.
package kafka
