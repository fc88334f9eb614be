package relay

import (
	"time"

	"github.com/google/uuid"
)

// Event is one row of the outbox table as the relay reads it. It is read-only once a [Source] has handed it out.
type Event struct {
	// ID is the row's id, drawn from the table's sequence by the writer's INSERT.
	ID int64
	// EventID is the event's identity for consumers: the header x-event-id.
	EventID uuid.UUID
	// Type is event_type: the header x-event-type.
	Type string
	// Topic is the Kafka topic.
	Topic string
	// PartitionKey is the record's key. It is never absent; "" is a key like any other.
	PartitionKey string
	// Payload is the payload's text as PostgreSQL prints it.
	Payload []byte
	// Headers is the text of the optional column headers, a JSON object; nil when the column or the value is absent.
	Headers []byte
	// CreatedAt is created_at: the start of the writer's transaction, by the database's clock.
	CreatedAt time.Time
	// Aggregate is aggregate_type and aggregate_id; zero when nobody asked for it ([Aggregates]).
	Aggregate Aggregate
}

// Key is the scope of order, of the gate and of parking.
type Key struct {
	Topic        string
	PartitionKey string
}

// Key returns the event's key.
func (e *Event) Key() Key { return Key{e.Topic, e.PartitionKey} }

// Ref returns the pair that names the row for ever: ids are issued again after a crash or a RESTART, the pair is not.
func (e *Event) Ref() Ref { return Ref{e.ID, e.EventID} }

// Size is what the event costs the relay's memory budget, in bytes: its variable parts and a flat charge for the rest.
func (e *Event) Size() int {
	return flatSize + len(e.Type) + len(e.Topic) + len(e.PartitionKey) + len(e.Payload) + len(e.Headers) + len(e.Aggregate.Type) + len(e.Aggregate.ID)
}

// flatSize is what an event in flight costs beside its variable parts.
const flatSize = 256

// Ref names a row: an id alone may be issued twice, the pair is unique.
type Ref struct {
	ID      int64
	EventID uuid.UUID
}
