// Package competing is the relay for the time of a migration: it works on one outbox table beside relays that know nothing of leases and
// lanes, as a service has one that locks rows with SKIP LOCKED. It does what they do, statement for statement:
//
//	BEGIN
//	SELECT … WHERE published_at IS NULL ORDER BY id LIMIT n FOR UPDATE SKIP LOCKED
//	   publish the events, wait for every acknowledgement
//	UPDATE … SET published_at = …
//	COMMIT                                  only here are the rows let go
//
// Whoever has locked a row publishes it, so nothing is published twice while all of them live, and nothing is lost: a transaction that ends in any
// other way leaves its rows unpublished for the next one. An event repeats only if it was in flight when a relay or a connection died, or when Kafka did
// not answer in time, always with the same x-event-id.
//
// What it does not do: keep the order of a key. Two relays hold neighbouring rows of a key at the same time and race to the broker. Within one pass of one
// relay the events of a key are sent in the order of their ids; between passes and between relays nothing is certain. For order, stop every
// relay of this kind and start package relay's.
//
// # Registration
//
// Package relay's engine looks at no row's lock, so the two kinds exclude each other: a competing relay registers, is refused while anybody leases
// lanes, and nobody can lease lanes while a registration lives.
//
//	    refused: lanes are leased
//	   ┌────────┐
//	   │        ▼
//	opened ── waits ──▶ registered ── renewed every TTL/3 ──▶ registered
//	                       │ not renewed until TTL − (produce timeout + overhead + margin)
//	                       ▼
//	                    silenced: the Kafka client is destroyed before anybody may lease a lane
//
// # Failures
//
//   - A bad event holds its key: the key's events are left out of the passes, then tried again from the bad one on, after longer and longer waits. Other
//     keys go on. The relays beside this one look at no such list, so order within the key is theirs to break.
//   - A key that a relay which leases lanes has parked waits for an operator here too.
//   - A topic that is missing or forbidden is held in the same way.
//   - A row that is in Kafka and cannot be marked (a constraint, a trigger) holds its key until the relay is started again.
//   - Kafka does not answer for PublishTimeout: the client is destroyed, so that nothing is in flight any more, what was acknowledged is marked, and the
//     rows are let go; a transaction that stays open for as long as an outage takes would keep VACUUM from its work.
//   - Kafka cannot be reached at all: the relay is registered nevertheless, so that it is seen, with since when Kafka is silent to it.
//   - The transaction breaks while Kafka has its events: the client is destroyed at once, for another relay may take the rows.
package competing
