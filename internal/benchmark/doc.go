// Package benchmark measures a database and a cluster that somebody already has, with the relay as it is: in a scratch schema and a scratch topic, which it makes and removes again,
// whatever ends it but a kill.
//
//	Open ─ Plan (what will be made, what an earlier run left) ─ the caller asks ─ Run
//	                                                                              │
//	  remove leftovers ─ make schema, source, topic ─ probe ─ writers ─ drain ─ live ─ Report
//	                               └────────────── removed again, also after an error ──────────────┘
//
// A run goes by one name, which tells when it was and is drawn at random: outbox_bench_20060102_150405_ab12cd. Its schema is called so and has a comment that says what it is; its topic is
// called the same with dashes. As long as the run lives, a transaction of its own holds an advisory lock by that name. A schema of that form, with that comment, whose lock is free, was left by
// a run that was killed. A topic of that form is taken for left if its schema was left too, or if no schema of this database has its name and it is older than a day: it may be that of a run in
// another database.
//
// The lock is held by a transaction, and not by a session, so that a pooler in between changes nothing. The transaction has neither a snapshot nor an id, so it keeps VACUUM from nothing.
package benchmark
