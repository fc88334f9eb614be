// Package fleet runs the relays of several sources in one process, so that the failure of one touches no other.
//
// An engine waits out by itself whatever happens to it once it has worked: its database down, its brokers down, its lease lost. What is left is a
// source that does not come up: a table that was never migrated, a refused password, a server that is away at the start. Then
//
//	                 ┌──────────── pause, 5 s growing to 30 s ◄───────────┐
//	                 ▼                                                    │
//	make engine ── runs ── it did not come up ── any other came up ─── failed
//	                 │                        └─ none did, all have tried: the process ends
//	                 └── stop asked: drained, lease handed back
//
// Going on without the failed source is what an operator wants at night, when a machine restarts while one database of ten is away: nine must not
// stand still for it. Ending is what he wants at a deploy that is wrong altogether, and with one source it is the only case. In between, a deploy that is
// wrong for one source, the failure is in the log at every attempt, in readiness, which holds up a rollout, and in the metrics.
package fleet
