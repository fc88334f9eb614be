package operate

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// KeyFilter says which parked keys are meant. The zero value means all; each field narrows.
type KeyFilter struct {
	Topic        *string `json:"topic,omitempty"`
	PartitionKey *string `json:"partition_key,omitempty"`
	// Type is that of the event that stops the key.
	Type *string `json:"event_type,omitempty"`
	Code *string `json:"code,omitempty"`
	// Error is a part of the code or the reason, in any case.
	Error string `json:"error,omitempty"`
	// MinAge and MaxAge are of how long the key has been parked, by the database's clock.
	MinAge time.Duration `json:"min_age_ns,omitempty"`
	MaxAge time.Duration `json:"max_age_ns,omitempty"`
}

// KeyQuery asks for a page of parked keys, in the order of the ids of the events that stop them.
type KeyQuery struct {
	KeyFilter
	// Order is oldest first when empty.
	Order Order
	// After is the cursor of the page before; "" begins.
	After string
	// Limit is the size of the page, 1 to [MaxPage]; 0 is [DefaultPage].
	Limit int
}

func (q KeyQuery) normalized() (KeyQuery, error) {
	if q.Order == "" {
		q.Order = OldestFirst
	}
	// What they share with events is checked there.
	same, err := EventQuery{
		EventFilter: EventFilter{Topic: q.Topic, PartitionKey: q.PartitionKey, Type: q.Type, Error: q.Error, MinAge: q.MinAge, MaxAge: q.MaxAge},
		Order:       q.Order, Limit: q.Limit,
	}.normalized()
	if q.Code != nil && !storable(*q.Code) {
		err = errors.Join(err, Refuse(CodeInvalid, "code %q: no key has such a code", *q.Code))
	}
	if err != nil {
		return KeyQuery{}, &Error{Code: CodeInvalid, Text: "list keys", Err: err}
	}
	q.Order, q.Limit = same.Order, same.Limit
	return q, nil
}

// Key is a parked key with the event that stops it.
type Key struct {
	Topic        string    `json:"topic"`
	PartitionKey string    `json:"partition_key"`
	ID           int64     `json:"id,string"`
	EventID      uuid.UUID `json:"event_id"`
	Type         string    `json:"event_type"`
	Code         string    `json:"code"`
	Reason       string    `json:"reason"`
	ParkedAt     time.Time `json:"parked_at"`
	Lane         int32     `json:"lane"`
	// AggregateType and AggregateID name what stops with the key, or what the key waits for; empty when the key is parked alone.
	AggregateType string `json:"aggregate_type,omitempty"`
	AggregateID   string `json:"aggregate_id,omitempty"`
	// WaitsFor is what stops that aggregate; nil when nothing does, or the key stops by its own event.
	WaitsFor *Root `json:"waits_for,omitempty"`
}

// Root is the event that stops an aggregate, with its key.
type Root struct {
	Ref
	Topic        string `json:"topic"`
	PartitionKey string `json:"partition_key"`
}

// KeyPage is a page of parked keys.
type KeyPage struct {
	Keys []Key `json:"keys"`
	// Next is the cursor of the next page; "" when there is none.
	Next string `json:"next,omitempty"`
	// Looks are the windows that were looked at; none when nothing was left out.
	Looks []Look `json:"looks,omitempty"`
	// Competing are the relays of mode competing that are alive: they park no key.
	Competing []string `json:"competing,omitempty"`
	// KeysBeside are of the first page.
	KeysBeside
}
