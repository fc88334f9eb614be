//go:build integration && unix

// Package chaos is the fault laboratory: relay processes, a PostgreSQL server and Kafka brokers of its own, writers that write down what they
// have committed, and faults by a plan that a seed decides. In the end package history compares the ledger, the topics and the table.
//
//	writers ──▶ PostgreSQL ◀── proxy ── relay 1..4 ── proxy ──▶ broker 1..3
//	   │             │            cut, slow, reset, half-closed      │
//	   ▼             ▼                                               ▼
//	 ledger        rows ─────────▶ history.Check ◀──────────────── records
//
// Each relay has proxies of its own, to the database and to each broker: a broker tells each relay other addresses, by one more listener for
// each relay. The relays are processes of the real command, which the tests build; package broken builds wrong ones, and each must be caught by
// a scenario that the healthy one passes.
//
//	make chaos                        a new seed, three minutes
//	make chaos SEED=17 MINUTES=30     the plan of that seed; NODES=3 for three brokers
//
// The plan follows from the seed alone. What happens follows from it as far as the machine's speed lets it, so a failure prints the plan, and
// the history of the key with the faults in it. Each minute it tells how far it is, and what it takes of memory and disk.
//
// A relay's wall clock is shifted by a build of its own: Go's library reads the clock without asking anything that a test could stand in for, so the
// build has another time.Now, see package broken. It is right on the monotonic clock, and asks a file for how wrong it is to be.
package chaos
