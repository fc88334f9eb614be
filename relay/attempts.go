package relay

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Attempts keeps, in the database, what was tried with single events that could not be published. A record goes when its event is in Kafka or dead.
// Changes compare the claim's owner and epoch in their own statement or transaction and return ErrLeaseLost when another relay has taken over.
type Attempts interface {
	// Failing returns the records of the given lanes, and removes those whose events are not unpublished any more.
	Failing(ctx context.Context, lanes []int32) ([]Failing, error)
	// Retry writes down failed attempts, and when the next ones are due, by the database's clock. It returns the keys whose events are not unpublished any more, of which it
	// writes nothing: somebody has given up, settled or removed those events meanwhile. After an error nothing is known of the events; one that the database refuses does not
	// keep the others from being written down.
	Retry(ctx context.Context, claim Claim, failed []RetriedEvent) (gone []Key, err error)
	// Due returns which events of the claim's lanes are to be tried again now: their time has come, by the database's clock. It returns each only once, so that
	// several relays do not try more often than one.
	Due(ctx context.Context, claim Claim) ([]Failing, error)
	// Bury writes down failed attempts and moves the events whole to the dead ones. It takes as many of them, from the first on, as a moment allows, and returns what became of
	// each of those; the others are given again. No row is waited for: the lanes must not be held up by one. After an error nothing is known of the events.
	Bury(ctx context.Context, claim Claim, dead []DeadEvent) (became []Burial, err error)
	// Begin writes down that events of the claim's lanes are about to be published, before anything of them is made: one attempt each, as if it had ended the
	// relay. Clear takes that back, or the whole record of an event that is in Kafka.
	Begin(ctx context.Context, claim Claim, events []*Event) error
	Clear(ctx context.Context, published, survived []Ref) error
}

// CodeCrashLoop is the code of an event that has ended one relay after the other.
const CodeCrashLoop = "CRASH_LOOP"

// Failing is the record of an event.
type Failing struct {
	Key
	// Event is the row.
	Event Ref
	// Attempts is how often it has failed; outages and neighbours' failures do not count.
	Attempts int
	// Crashes is how many relays have ended while it was being published, so far as they had time to say that they would.
	Crashes int
	// Waits tells that another attempt is to be made, In after how long by the database's clock.
	Waits bool
	In    time.Duration
}

// FailedEvent is an event with what went wrong.
type FailedEvent struct {
	Key
	// Event is the row, EventType its type.
	Event     Ref
	EventType string
	// Aggregate is the event's if it stops with the key; of a key that waits for it with CodeAggregateParked, the one that it waits for. Otherwise zero.
	Aggregate Aggregate
	// Code is a stable name of the reason, such as MESSAGE_TOO_LARGE; Reason says it to people: what, where, and what to do.
	Code, Reason string
}

// RetriedEvent is an event that is to be tried again, after Wait.
type RetriedEvent struct {
	FailedEvent
	Wait time.Duration
}

// DeadEvent is an event that is given up.
type DeadEvent struct {
	FailedEvent
	// By is who gives it up, for people: "relay NAME", or an operator.
	By string
	// Letter is where it is in a dead-letter topic; nil when it was sent to none.
	Letter *Place
}

// Burial is what became of an event that [Attempts.Bury] has taken.
type Burial struct {
	// Moved tells that it is with the dead ones. Without that and without an error, it is not unpublished any more: somebody has settled or removed it meanwhile.
	Moved bool
	// Err, when it is a *RefusedError, is the database's answer to this event, and to try again is no use; with ErrLocked it is of use, in a while.
	Err error
	// LockedBy is, with ErrLocked, who has the row locked and since when, for people; "" when it is not known to be locked.
	LockedBy string
}

// Place is where a record is in Kafka.
type Place struct {
	Topic     string
	Partition int32
	// Offset is negative when the broker did not tell it: it had the record from an attempt whose answer was lost.
	Offset int64
}

func (p Place) String() string {
	if p.Offset < 0 {
		return fmt.Sprintf("%s, partition %d", p.Topic, p.Partition)
	}
	return fmt.Sprintf("%s, partition %d, offset %d", p.Topic, p.Partition, p.Offset)
}

// ErrLocked tells that somebody else has the row locked, or that there was no time for it.
var ErrLocked = errors.New("somebody else has the row locked")

// RefusedError is the database's refusal of a change that waiting does not mend, such as a missing right.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

func (e *RefusedError) Unwrap() error { return e.Err }

// Letterer is an optional ability of a [Publisher]: it sends events to dead-letter topics.
type Letterer interface {
	// PublishLetter sends the event's key, value and headers to another topic, with the letter's own headers. Of an event that cannot be made into a record it sends what
	// can be. done is called as for Publish, with the outcome and, without an error, where the record is.
	PublishLetter(l Letter, done func(Place, error))
}

// Letter is an event on its way to a dead-letter topic.
type Letter struct {
	// Topic is where it goes.
	Topic string
	// Event is the event as it was read.
	Event *Event
	// Code and Reason are why it is given up, Attempts after how many, At when.
	Code, Reason string
	Attempts     int
	At           time.Time
}
