package migrate

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Defaults of [Config].
const (
	DefaultTable       = "public.outbox_event"
	DefaultLanes       = 8
	DefaultLockTimeout = time.Second
)

// MaxLanes is the largest number of lanes that a source can have.
const MaxLanes = 1024

// The delivery modes of a source.
const (
	AtLeastOnce = "at-least-once"
	ExactlyOnce = "exactly-once" // not in this version
)

// Config names a source and says how to make it. The zero value is the table public.outbox_event.
type Config struct {
	// Table is the outbox table, as [ParseTable] reads it; "" is DefaultTable.
	Table string
	// Lanes is the number of lanes of a new source, 1 to MaxLanes; 0 is DefaultLanes, or what an existing source has. A source that has
	// another number already is refused: outbox lanes set changes it.
	Lanes int
	// Delivery is the delivery mode of a new source; "" is AtLeastOnce, or what an existing source has. A source that has another one
	// already is refused, and so is ExactlyOnce, which is not in this version.
	Delivery string
	// Headers adds the optional column headers to a new table.
	Headers bool
	// Delete gives the relay's role the right to delete rows: to settle by delete, and to move events that are given up.
	Delete bool
	// Restore gives the role the right to put dead events back: to insert rows, which a relay needs for nothing else.
	Restore bool
	// NewTable makes a new table also where one that was renamed holds events that are not published. Without it that is refused: nobody would read them.
	NewTable bool
	// Waiting, unless nil, is told once, in a sentence, of what keeps a step waiting for longer than a second.
	Waiting func(what string)
	// LockTimeout is how long a step waits for a lock that traffic holds, before it lets the traffic pass and tries again; 0 is
	// DefaultLockTimeout. Nobody queues behind a step for longer.
	LockTimeout time.Duration
}

// settings is a checked Config.
type settings struct {
	Config
	table Table
}

func (c Config) withDefaults() Config {
	if c.Table == "" {
		c.Table = DefaultTable
	}
	if c.LockTimeout == 0 {
		c.LockTimeout = DefaultLockTimeout
	}
	return c
}

// check returns all that is wrong at once.
func (c Config) check() (settings, error) {
	c = c.withDefaults()
	c.Waiting = once(c.Waiting)
	table, err := ParseTable(c.Table)
	errs := []error{err}
	if table.Schema == stateSchema {
		errs = append(errs, fmt.Errorf("table %s: the schema %s is the relay's own; put the table into another one", table, stateSchema))
	}
	if c.Lanes < 0 || c.Lanes > MaxLanes {
		errs = append(errs, fmt.Errorf("lanes %d: want 1 to %d, or 0 for the default", c.Lanes, MaxLanes))
	}
	switch c.Delivery {
	case "", AtLeastOnce:
	case ExactlyOnce:
		errs = append(errs, fmt.Errorf("delivery %s: not in this version; want %s", ExactlyOnce, AtLeastOnce))
	default:
		errs = append(errs, fmt.Errorf("delivery %q: want %s", c.Delivery, AtLeastOnce))
	}
	if c.LockTimeout < time.Millisecond {
		errs = append(errs, fmt.Errorf("lock timeout %s: want 1ms or more", c.LockTimeout))
	}
	return settings{c, table}, errors.Join(errs...)
}

// once passes on the first call.
func once(say func(string)) func(string) {
	if say == nil {
		return func(string) {}
	}
	var said sync.Once
	return func(what string) { said.Do(func() { say(what) }) }
}

// newLanes and newDelivery are what a source gets when it is made.
func (s settings) newLanes() int {
	if s.Lanes == 0 {
		return DefaultLanes
	}
	return s.Lanes
}

func (s settings) newDelivery() string {
	if s.Delivery == "" {
		return AtLeastOnce
	}
	return s.Delivery
}
