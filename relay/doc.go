// Package relay is the engine that takes unpublished events from a [Source], hands them to a [Publisher] in the order of their keys,
// and settles what Kafka has acknowledged. It knows neither SQL nor Kafka.
//
// # A run and its terms
//
// [Relay.Run] works in terms. A term is the work from the first lanes on until something ends it, and everything that the relay has in memory belongs to it, except the events that are in
// Kafka and not yet settled.
//
//	          ┌──────────────────────── pause ◀───────────────────────┐
//	          ▼                                                       │ failed
//	open source ──▶ claim lanes ──▶ open publisher ──▶ settle what ──▶ read, publish, ──▶ drain ──▶ leave ──▶ end
//	                  │      ▲       check topics      was left       settle              stopped
//	                  └──────┘                         read parked keys
//	              all are others'                      start reading
//
// Whatever fails ends the term: there is one way to recover, and it is the one that is tested most. After a client was destroyed with events outstanding
// the pause lasts for [Publisher.MaxDelay] and the lanes are not handed back: one of those events, landing behind what is published next, would turn its key.
//
// # Lanes
//
// A key belongs to the lane [Lane] of a source, and a lane to at most one relay: to the owner of its lease, until that runs out by the database's clock. The relays that are alive share the
// lanes evenly ([Share]) and look at them all [Config.LookInterval]. Free lanes are taken at once; for its share of the others' a relay has to show itself first ([Standing]), so that a
// process that crashes again and again takes nothing away from those that work, or one lane at most:
//
//	registered ──── seen again at its next look ──▶ alive ──── works with a lane: Kafka takes what it publishes ──▶ tried
//	counts for nobody but itself                    the others leave it one lane, and only    └─── or waits for some seconds ──▶  counts in full
//	                                                one newcomer at a time
//
//	           free, and below the share              parked keys read, walk begun
//	nobody's ─────────────────────────────▶ claimed ──────────────────────────────▶ read
//	   ▲ ▲                                     ▲                                    │  │ above the share, or the one lane for a newcomer
//	   │ │                                     │ not drained in time                │  ▼
//	   │ └───────── released ◀──────────────── │ ──── drained ◀──────────────────── │ leaving
//	   │                                       └────────────────────────────────────│──┘
//	   ├────────────────── run out, after the client was destroyed ◀────────────────┤ not renewed in time
//	   └───── released [Publisher.MaxDelay] after the client was destroyed ◀────────┘ resigned
//
// A relay resigns when Kafka has answered nothing of what is outstanding for [Config.StallTimeout] and answers another relay: that one has had an acknowledgement, or an answer to a question, well after
// the silence began. Where nobody has, the brokers are away for all, and every relay keeps what it has. One that has resigned claims again when the publisher is proved and a while is over, which doubles
// each time nothing was acknowledged in between; until then it takes only lanes that are left lying.
//
// A lane is drained when what was published of it is acknowledged AND settled and its failed keys are parked: the next owner then sees in the database all that this one knew. A lane that is
// gained is walked through from its oldest unpublished event on, while its newer events wait behind.
//
// # The goroutines of a term
//
//	reader ──Publish──▶ Publisher ──done──▶ outcomes ──▶ settler ──▶ Source
//	  ▲ │                   ▲                  │ │
//	  │ └───── admit ──▶ [gate] ◀── resolve ───┘ └──▶ housekeeping: parks keys, reads those of gained lanes, asks for missing topics, carries out requests
//	  └──── room, released ──┘
//	                                                  keeper: renews the leases, takes and gives back lanes; silences the relay when it cannot renew
//
// # An event
//
//	unread ──▶ waiting ──▶ outstanding ──▶ acked ──▶ settled
//	  ▲  ▲        │            │
//	  │  └─ spilled ◀──────────┤ held, neighbour of a failure
//	  └── unpark, topic ready ─┴─▶ key parked, topic held
//
// An event is in flight, and in memory, from admission until its settle has committed. One that is held in any way is dropped from memory, and all later
// events of its key with it. With [ScopeAggregate] a key is parked as well that comes to an event of an aggregate which another key stops, in whatever lane. When the reason is over the key or topic is read again from its oldest event on, and until the reader has begun with that
// nothing newer of it is admitted.
//
// # What always holds
//
//   - An event is settled only after Kafka has acknowledged it.
//   - A key with events outstanding gets no new ones, and its events go out in the order of their ids.
//   - Nothing reaches Kafka later than the leases last: the client is destroyed while there is still time for what is on its way. So too before lanes are
//     handed back by a relay that has resigned.
//   - A lane is given back only when nothing of it is outstanding, unsettled or to be parked, or left to run out.
//   - A stop and a failure leave answers that come in time heard, and what they acknowledge settled.
//   - An event that is in Kafka and whose row cannot be settled (a constraint, a trigger, row-level security) stays in flight in every later term
//     of the run: it is not published again before a restart or before its lane is another relay's, and stops no other.
//   - What is in flight is bounded by Config.MaxInFlight and MaxInFlightBytes, whatever stands still.
package relay
