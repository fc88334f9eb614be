package operate

import (
	"context"
	"time"
)

// Store is what the service asks of the database; package postgres implements it.
type Store interface {
	Lookups
	Changes
}

// Lookups are looks at the database. Each is one read-only snapshot by the database's clock, and ends on the server after limit with
// [CodeTooSlow] and what to narrow. None reads outbox_event but over an index, and none reads more of it than a
// page, or the windows that its result names. Queries come normalized.
type Lookups interface {
	Events(ctx context.Context, limit time.Duration, q EventQuery) (EventPage, error)
	// Event has payload and headers always: the service withholds them. Unknown: [CodeNotFound].
	Event(ctx context.Context, limit time.Duration, ref Ref) (EventDetail, error)
	Keys(ctx context.Context, limit time.Duration, q KeyQuery) (KeyPage, error)
	Topics(ctx context.Context, limit time.Duration) (TopicList, error)
	Lanes(ctx context.Context, limit time.Duration) ([]Lane, error)
	Relays(ctx context.Context, limit time.Duration) ([]Relay, error)
	Audit(ctx context.Context, limit time.Duration, q AuditQuery) (AuditPage, error)
	Jobs(ctx context.Context, limit time.Duration, q JobQuery) (JobPage, error)
	Pauses(ctx context.Context, limit time.Duration) ([]Pause, error)
}

// Cluster is what the service asks of Kafka's side; package kafka implements it.
type Cluster interface {
	// Render makes the record as the relay would send it. It asks nobody. What cannot become a record is an error that says why.
	Render(row Row) (Record, error)
}
