package history

import (
	"time"

	"github.com/google/uuid"
)

// Stream is the scope of order: a topic and a partition key.
type Stream struct{ Topic, Key string }

// Event is one that a writer has written.
type Event struct {
	ID uuid.UUID
	Stream
	// Seq is its place in the stream, from 1 on, in commit order.
	Seq int
}

// Record is what a topic holds.
type Record struct {
	ID uuid.UUID
	Stream
	// Seq is what the payload says.
	Seq       int
	Partition int32
	Offset    int64
	// At is when the broker has appended it.
	At time.Time
}

// Row is an event's row at the end.
type Row struct {
	// CreatedAt is when its transaction began.
	CreatedAt time.Time
	// PublishedAt is when it was settled; zero when it was not.
	PublishedAt time.Time
}

// Fault is something that was done to the system, or that has befallen it.
type Fault struct {
	// What says it to people.
	What string
	// From and Until are when it began and when everything was as before.
	From, Until time.Time
	// Repeats tells that what was unpublished meanwhile may be published again.
	Repeats bool
	// Own tells that nobody has made it: a relay could not work for a moment, on a busy machine, and says so.
	Own bool
	// Freezes tells that a process was stopped that may have held a produce.
	Freezes bool
}

// History is everything that the witnesses say.
type History struct {
	// Committed are the events that must arrive, RolledBack those that must not.
	Committed, RolledBack []Event
	// Records are those of all topics, each partition's in the order of offsets.
	Records []Record
	// Rows are the rows of the table at the end; nil when relays delete what they settle, and then no repeat is asked for its reason.
	Rows map[uuid.UUID]Row
	// Parked are the keys that are parked at the end, with the reason. Not one event is bad.
	Parked map[Stream]string
	Faults []Fault
	// Doubts are contradictions between what a writer was told and what the database says of its transaction.
	Doubts []string
}
