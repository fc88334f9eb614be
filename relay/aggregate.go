package relay

import (
	"context"
	"fmt"
)

// ParkScope is how far a parked event reaches.
type ParkScope int

// The scopes.
const (
	// ScopeKey parks the event's key and nothing else.
	ScopeKey ParkScope = iota
	// ScopeAggregate parks the event's key; and as long as it is parked, keys of other topics or partition keys stop when they come to an event of the same aggregate
	// (aggregate_type and aggregate_id). What is handed over already may still go out: the scope contains a fault, the order in each key is the same with and without it.
	ScopeAggregate
)

// ParseParkScope reads "key" or "aggregate".
func ParseParkScope(s string) (ParkScope, error) {
	for scope := ScopeKey; scope <= ScopeAggregate; scope++ {
		if s == scope.String() {
			return scope, nil
		}
	}
	return ScopeKey, fmt.Errorf("%q is no scope: use key or aggregate", s)
}

func (s ParkScope) String() string {
	switch s {
	case ScopeKey:
		return "key"
	case ScopeAggregate:
		return "aggregate"
	}
	return fmt.Sprintf("scope %d", int(s))
}

// Aggregate names an aggregate of the services. The zero Aggregate is none: an event of it waits for no other.
type Aggregate struct {
	// Type is aggregate_type, ID aggregate_id.
	Type, ID string
}

// CodeAggregateParked is the code of a key that waits for another one: its next event belongs to an aggregate that the other one stops. Such a key goes on by itself when nothing
// stops the aggregate any more.
const CodeAggregateParked = "AGGREGATE_PARKED"

// Aggregates is an ability of a [Source] that [ScopeAggregate] needs.
type Aggregates interface {
	// ReadAggregates makes the source hand out events with their aggregates. It is called before Open, which then refuses a table that has no columns for them, with
	// ErrConfiguration.
	ReadAggregates()
	// StoppedAggregates returns all aggregates of the source that keys stop, whoever has their lanes. When they still have the name that is known, it returns the name alone.
	StoppedAggregates(ctx context.Context, known string) (StoppedAggregates, error)
	// FreeFollowers takes keys with [CodeAggregateParked] out of what is parked, in one transaction that compares the claim's owner and epochs as Park does. It returns those of the
	// given keys that are not parked any more.
	FreeFollowers(ctx context.Context, claim Claim, keys []Key) (freed []Key, err error)
}

// StoppedAggregates is all that [Aggregates] knows of, with a name that changes with it.
type StoppedAggregates struct {
	Name string
	All  []StoppedAggregate
}

// StoppedAggregate is an aggregate with the key that stops it.
type StoppedAggregate struct {
	Aggregate
	// Key is the key that is parked, Event the row that it stops at.
	Key   Key
	Event Ref
}
