package outbox

import (
	"time"

	"github.com/google/uuid"
)

// Event is something that happened to an aggregate, as it is to be published.
type Event struct {
	// ID is the event's identity for consumers: the header x-event-id, the same in every delivery. Zero means a new UUIDv7.
	ID uuid.UUID
	// AggregateType names the kind of aggregate, such as Order. Required.
	AggregateType string
	// AggregateID identifies the aggregate. Required.
	AggregateID string
	// Type is the event's type with its version, such as order.confirmed.v1: the header x-event-type. Required.
	Type string
	// Payload becomes the record's value. Required.
	//   - []byte and json.RawMessage are JSON text and are stored as they are;
	//   - an [Envelope] is the usual envelope around its data;
	//   - anything else is marshalled by encoding/json without escaping <, > and &. A string becomes a JSON string.
	//
	// What marshals to null, such as a nil map, is refused as a likely mistake: give json.RawMessage("null") if null is meant.
	Payload any
	// Topic is the Kafka topic. "" means the one that [Topics] of the [Config] derives; without a service there it is required.
	Topic string
	// PartitionKey is the record's key, byte for byte. "" means the aggregate's id, so that a record always has a key.
	PartitionKey string
	// Headers are additional headers of the record. They need the optional column headers (jsonb). The names x-event-id and x-event-type are
	// taken. They reach Kafka in the order in which jsonb keeps them: shorter names first, then by bytes.
	Headers map[string]string
	// OccurredAt is when it happened, for the [Envelope]. Zero means now. The column created_at is filled by the database.
	OccurredAt time.Time
}
