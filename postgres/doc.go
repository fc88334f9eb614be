// Package postgres implements the relay's [relay.Source] over PostgreSQL: it reads unpublished events, settles them, and keeps the leases and
// the failures. Every statement that works on the outbox table is here, except those that write an event and those that make the table.
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
//   - While pos is below the cursor nothing above pos is handed on, whatever its key. A walk for released keys reaches up to pos; events of its
//     keys above its own position are left to it.
//   - What is handed on twice, as a second walk does, the relay's gate drops by (id, event_id).
//
// The writers that are open at Start may hold any id below the cursor: they leave one hole that reaches from the beginning to the
// cursor. Rows above last_value (OVERRIDING SYSTEM VALUE) move no cursor; they are read by themselves at the end of a walk, and later ones
// are left to the sweep.
//
// A sequence that was restarted makes the reader begin anew by itself, and so does a find of the sweep. A server that was restarted or failed
// over is [relay.ErrServerChanged], and the term ends: ids may have been given twice. A broken connection is an error like any other.
package postgres
