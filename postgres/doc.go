// Package postgres implements the relay's [relay.Source] over PostgreSQL: it reads unpublished events, settles them, and keeps the leases and
// the failures. Every statement that works on the outbox table is here, except those that write an event, those that make the table, those that delete what is
// old (package retention), and what doctor asks.
//
// # How events are read
//
// Ids are drawn when a row is inserted, and rows appear when their transaction commits, so an id can appear after higher ones. A
// reader that remembers the highest id it has seen loses events; one that waits for every missing id stalls at the first rollback. This one
// remembers which ids it has passed without seeing a row, the holes, and finds out from the database itself when a hole can not be filled
// any more. Nothing of this is stored: that a row is unpublished says what is to be done, the cursor only makes it quick.
//
//	        Start: everything unpublished, in pages            live
//	  ├──────────────────────────────┬───────────────┤├──────────────────────┤
//	  │ handed on                    │ not seen yet  ││ rows, holes, rows    │ head: not passed yet
//	──┴──────────────────────────────┴───────────────┴┴────○──○○─────────────┴───────────────────→ id
//	                                pos           cursor   holes         pos = cursor    last_value
//
// A read is one statement, so all it brings is of one snapshot: the head (ids above the position, by the primary key), what has
// appeared in the holes, a page of a walk, the snapshot itself, where the sequence stands, and which server answers. Finds in
// holes are handed on before the head, in the order of ids.
//
// Invariants:
//   - If the writers of a key are serialised and A commits before B inserts, then id(A) < id(B), and every snapshot that sees B sees A. So the
//     order of ids within one snapshot is right, as long as holes and head are looked at in the same one.
//   - Every id at or below the cursor has a row that was handed on, lies above the position, is a hole, or will never have a row.
//   - A hole is closed when each transaction that held RowExclusiveLock on the table at a time after the hole was first seen has finished,
//     and a read that began after that has found it empty. An INSERT takes that lock before it draws its id, and releases it after its commit
//     is visible. There is no time-out: an hour-long writer is waited for, and disturbs nobody.
//   - A read may leave holes out only if all transactions they wait for have an xid that is running in that read's own snapshot, and a
//     read that began after their list last changed has looked at them. If one has finished, the read is done again.
//   - While pos is below the cursor nothing above pos is handed on, whatever its key. A walk for released keys and gained lanes reaches up to
//     pos; events of its keys and lanes above its own position are left to it.
//   - What is handed on twice, as a second walk does, the relay's gate drops by (id, event_id).
//
// # Reading some of the lanes
//
// A reader has some of the lanes, and hands on nothing else. A row of another lane comes back as its id alone: it is there, so it is no hole, and it
// costs next to nothing. Pages, looks below Start's cursor, and what lies above the sequence are searched for the reader's lanes in SQL. A reader that
// has all lanes asks the same questions without any of this.
//
// A lane that is gained later is walked through from the beginning, because its rows were passed as another relay's. It is the reader's from that moment
// on, so whatever appears of it is either handed on or left to its walk:
//   - What was visible before is unpublished and below the cursor, or not passed yet: the walk, or the head, comes to it. What the former owner had
//     handed on is settled, or it is published once more, as after every lease that ran out.
//   - What was in a hole is in a hole still: holes have no lane. When it appears at or below the walk's position, it is handed on at once: what is
//     newer of its key was not visible when the walk passed there, or else, its writers being serialised, it would have been visible too. When it
//     appears above, the walk has it in its right place.
//   - What the writers who were open at Start commit is found by the look below, in the lanes of the moment, until all these writers have finished.
//   - When the reader begins anew, all its lanes are walked through, and no other walk is left.
//
// A lane that is forgotten is out of all questions at once, and out of the walks. Had again, it is walked through again, by the next walk if one is under
// way: the position of that one says nothing about the lane any more.
//
// # Leases
//
//	        claim: up to the share                    not renewed until expires_at
//	free ────────────────────────────▶ owned, epoch+1 ─────────────────────────────▶ expired
//	 ▲                                  │    ▲  │                                     │   │
//	 └──────────────────────────────────┘    └──┘ renew, claim: same epoch ◀──────────┘   │ claim of another relay:
//	      release, leave                                                                  ▼ owned, epoch+1
//
// All times are the database's. A lane has one owner, and its epoch rises whenever it gets one, also the same one again. Whoever decides something
// about a key (parks it, carries out a request) locks the key's lane and compares owner and epoch in the same transaction. So a relay that wakes up
// after its lease ran out can still decide until another one has taken the lane, and never after.
//
// Relays count each other by their registrations in outbox.relay, which last as long as their leases. The number of lanes is a property of the source:
// a claim holds the source's row against a change, and a change finds out that no relay is alive while it holds the row against claims.
//
// The writers that are open at Start may hold any id below the cursor: they leave one hole that reaches from the beginning to the
// cursor. Rows above last_value (OVERRIDING SYSTEM VALUE) move no cursor; they are read by themselves at the end of a walk, and later ones
// are left to the sweep.
//
// A sequence that was restarted makes the reader begin anew by itself, and so does a find of the sweep. A server that was restarted or failed
// over is [relay.ErrServerChanged], and the term ends: ids may have been given twice. A broken connection is an error like any other.
package postgres
