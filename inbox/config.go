package inbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Unknown is what becomes of a record whose event type has no handler.
type Unknown int

// What becomes of it. One topic for an aggregate makes types that a consumer does not care for normal.
const (
	// IgnoreUnknown takes it as handled, and writes nothing.
	IgnoreUnknown Unknown = iota
	// FailUnknown makes it a permanent failure, with all that the retry policy says of one.
	FailUnknown
	// DeadLetterUnknown sends it to the topic's dead-letter topic, whatever the retry policy says, and its key goes on.
	DeadLetterUnknown
)

// NoID is what becomes of a record that has no event id.
type NoID int

// What becomes of it.
const (
	// FailNoID makes it a permanent failure.
	FailNoID NoID = iota
	// HandleNoID handles it every time that it is delivered.
	HandleNoID
	// PlaceNoID takes topic, partition and offset for its id, in a retry topic those that it had at first. A record that is published again has another one.
	PlaceNoID
)

// Config is how records are handled. The zero value is ready for use.
type Config struct {
	// EventID finds a record's event id. Its error is [ErrNoID] where there is none; any other one is a permanent failure. Default: [EventID].
	EventID func(*Record) (string, error)
	// EventType finds the event type. Default: [EventType].
	EventType func(*Record) string
	Unknown   Unknown
	NoID      NoID
	// Timeout is how long a handler may take for one record, and how long its turn is waited for while another transaction has the event or all connections are in use.
	// Default 30 s.
	Timeout time.Duration
	// Retain is how long handled events are remembered: longer than anything may be delivered again, such as the topic's retention and what waits in a dead-letter
	// topic. Default 2160h, which is 90 days; negative: for ever.
	Retain time.Duration
	// Tracer, when not nil, follows each call of a handler.
	Tracer Tracer
	// Logger gets what an operator should know; nil discards it.
	Logger *slog.Logger
}

// Defaults of [Config].
const (
	DefaultTimeout = 30 * time.Second
	DefaultRetain  = 90 * 24 * time.Hour
)

// minRetain is a day: what is delivered again within it must not be handled again.
const minRetain = 24 * time.Hour

func (c Config) withDefaults() Config {
	if c.EventID == nil {
		c.EventID = EventID
	}
	if c.EventType == nil {
		c.EventType = EventType
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Retain = cmp.Or(c.Retain, DefaultRetain)
	return c
}

func (c Config) validate() (errs []error) {
	if c.Unknown < IgnoreUnknown || c.Unknown > DeadLetterUnknown {
		errs = append(errs, fmt.Errorf("Unknown %d: use IgnoreUnknown, FailUnknown or DeadLetterUnknown", c.Unknown))
	}
	if c.NoID < FailNoID || c.NoID > PlaceNoID {
		errs = append(errs, fmt.Errorf("NoID %d: use FailNoID, HandleNoID or PlaceNoID", c.NoID))
	}
	if c.Timeout < 0 {
		errs = append(errs, errors.New("Timeout is negative"))
	}
	if c.Retain > 0 && c.Retain < minRetain {
		errs = append(errs, fmt.Errorf("Retain %s: at least %s, or negative for ever", c.Retain, minRetain))
	}
	return errs
}
