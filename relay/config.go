package relay

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// Config is what an operator may want to change. The zero value works.
type Config struct {
	// Name says to people where the relay runs. Default: host name and process id.
	Name string
	// Version is written beside the name. Default "devel".
	Version string
	// PollInterval is how long the relay waits at most between two reads while there is nothing to do; the wait begins at 1 ms and
	// doubles. Default 100 ms.
	PollInterval time.Duration
	// BatchSize is how many events one read takes at most; reads begin with 50 and grow while they come back full. Default 2,000.
	BatchSize int
	// MaxInFlight and MaxInFlightBytes bound the events that are read and not settled. Defaults 20,000 and 32 MiB.
	MaxInFlight      int
	MaxInFlightBytes int
	// LeaseTTL is how long after a crash the next relay waits before it takes over. Default 15 s, at least 5 s, at most 1 h.
	LeaseTTL time.Duration
	// DrainTimeout is how long a stop waits for what is outstanding. Default 10 s.
	DrainTimeout time.Duration
	// SweepInterval is how often the table is looked through for forgotten events. Default 30 s; negative: never.
	SweepInterval time.Duration
	// TopicCheckInterval is how often missing topics are asked for. Default 2 s.
	TopicCheckInterval time.Duration
	// LookInterval is how often the relay looks how the lanes are shared out and whether operators ask for something. Default 400 ms: a
	// clean hand-over must take less than a second.
	LookInterval time.Duration
	// StartTimeout is how long the relay tries to reach the database and the brokers for the first time. Default 30 s; negative: for ever.
	StartTimeout time.Duration
	// StallTimeout is after how long without an acknowledgement, with events outstanding, publishing counts as stalled; with Once the
	// relay gives up after twice that time. Default 15 s.
	StallTimeout time.Duration
	// Policies say what becomes of events that cannot be published; the first whose pattern is the event's topic counts. Without one, and by default, the event's
	// key is parked.
	Policies []Policy
	// Topics are names that must exist when the relay starts, or 5 s later at the latest.
	Topics []string
	// Once makes Run end when everything is published that was committed when it began and can be.
	Once bool
	// Logger gets one line for each change of state. Default: none.
	Logger *slog.Logger
	// LogKeys names partition keys in it, as the attribute key: they are the services' data.
	LogKeys bool

	// step is called at the points where a crash is tested.
	step func(point string)
	// now is the clock that leases are counted by.
	now func() time.Time
	// jitter draws from zero to below its argument.
	jitter func(time.Duration) time.Duration
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = engine.ProcessName()
	}
	c.Version = cmp.Or(c.Version, "devel")
	c.PollInterval = cmp.Or(c.PollInterval, 100*time.Millisecond)
	c.BatchSize = cmp.Or(c.BatchSize, 2000)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 20_000)
	c.MaxInFlightBytes = cmp.Or(c.MaxInFlightBytes, 32<<20)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 15*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 10*time.Second)
	c.SweepInterval = cmp.Or(c.SweepInterval, 30*time.Second)
	c.TopicCheckInterval = cmp.Or(c.TopicCheckInterval, 2*time.Second)
	c.LookInterval = cmp.Or(c.LookInterval, 400*time.Millisecond)
	c.StartTimeout = cmp.Or(c.StartTimeout, 30*time.Second)
	c.StallTimeout = cmp.Or(c.StallTimeout, 15*time.Second)
	policies := make([]Policy, len(c.Policies))
	for i, p := range c.Policies {
		policies[i] = p.withDefaults()
	}
	c.Policies = policies
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.step == nil {
		c.step = func(string) {}
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.jitter == nil {
		c.jitter = rand.N[time.Duration]
	}
	return c
}

func (c Config) validate(maxDelay time.Duration) error {
	var errs []error
	positive := func(name string, v int64) {
		if v <= 0 {
			errs = append(errs, fmt.Errorf("%s is %d; it must be positive", name, v))
		}
	}
	positive("PollInterval", int64(c.PollInterval))
	positive("BatchSize", int64(c.BatchSize))
	positive("MaxInFlight", int64(c.MaxInFlight))
	positive("MaxInFlightBytes", int64(c.MaxInFlightBytes))
	positive("DrainTimeout", int64(c.DrainTimeout))
	positive("TopicCheckInterval", int64(c.TopicCheckInterval))
	positive("LookInterval", int64(c.LookInterval))
	positive("StallTimeout", int64(c.StallTimeout))
	for _, p := range c.Policies {
		if err := p.validate(); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, engine.CheckLeaseTTL(c.LeaseTTL, maxDelay))
	return errors.Join(errs...)
}
