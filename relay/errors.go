package relay

import (
	"errors"
	"fmt"
)

// Errors that end a term of the relay.
var (
	// ErrLeaseLost: another relay has taken the lease, or this one could not renew it in time.
	ErrLeaseLost = errors.New("lease lost")
	// ErrServerChanged: the database's server was restarted or failed over; what was read from the old one proves nothing.
	ErrServerChanged = errors.New("database server changed")
)

// ErrConfiguration marks what waiting does not mend: a table that was never migrated, a refused password. A [Source] or a [Publisher] wraps it. Run
// returns it when it is met at first, before the relay has worked or waited for its turn; later it is waited out like an outage, because a
// deploy or a change of passwords may be under way.
var ErrConfiguration = errors.New("configuration")

// Class says what a failure stops, and so what the relay does about it.
type Class int

// The classes, from the widest to the narrowest.
const (
	// ClassOutage stops publishing until it is over: brokers unreachable, too few replicas, a wrong password.
	ClassOutage Class = iota + 1
	// ClassTopic stops one topic: it is missing, forbidden, or has an impossible name.
	ClassTopic
	// ClassEvent stops one key: the event itself cannot be published.
	ClassEvent
	// ClassHeld is a neighbour of a failure: not sent, to be read again.
	ClassHeld
	// ClassUnknown is an event whose client was destroyed: it may be in Kafka, and will be sent again.
	ClassUnknown
)

func (c Class) String() string {
	switch c {
	case ClassOutage:
		return "outage"
	case ClassTopic:
		return "topic"
	case ClassEvent:
		return "event"
	case ClassHeld:
		return "held"
	case ClassUnknown:
		return "unknown"
	}
	return fmt.Sprintf("class %d", int(c))
}

// PublishError is a failure to publish, classified.
type PublishError struct {
	Class Class
	// Code is a stable name of the reason, such as UNKNOWN_TOPIC_OR_PARTITION or MESSAGE_TOO_LARGE.
	Code string
	// Topic is where it happened; "" when it concerns none.
	Topic string
	// Passing tells, with ClassEvent, that time alone may cure it: the same event may be taken later.
	Passing bool
	// Err says it to people: what, where, and what to do. It holds no payload and no secret.
	Err error
}

func (e *PublishError) Error() string {
	if e.Topic == "" {
		return fmt.Sprintf("%s: %v", e.Code, e.Err)
	}
	return fmt.Sprintf("topic %s: %s: %v", e.Topic, e.Code, e.Err)
}

func (e *PublishError) Unwrap() error { return e.Err }

// ReasonOf returns a failure's stable code, and what it says to people without naming the topic again.
func ReasonOf(err error) (code, reason string) {
	var p *PublishError
	if errors.As(err, &p) && p.Err != nil {
		return p.Code, p.Err.Error()
	}
	return "", err.Error()
}

// UnsettledError tells that some rows of a settle cannot be settled, while the others were: a constraint or a trigger of the table refuses the change, or a
// trigger or row-level security leaves the row as it was. Waiting does not mend it.
type UnsettledError struct {
	// Refs are the rows; never empty.
	Refs []Ref
	// Err is why, for people. Of many rows with different reasons it tells a few.
	Err error
}

func (e *UnsettledError) Error() string {
	return fmt.Sprintf("%d events cannot be settled, the first is id %d: %v", len(e.Refs), e.Refs[0].ID, e.Err)
}

func (e *UnsettledError) Unwrap() error { return e.Err }

// ClassOf returns the class of an error that a [Publisher] gave; an unclassified one counts as ClassUnknown.
func ClassOf(err error) Class {
	var p *PublishError
	if errors.As(err, &p) {
		return p.Class
	}
	return ClassUnknown
}
