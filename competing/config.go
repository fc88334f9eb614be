package competing

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
	// PollInterval is how long the relay waits at most between two passes while there is nothing to do; the wait begins at 5 ms and doubles.
	// Default 100 ms.
	PollInterval time.Duration
	// BatchSize is how many rows one pass locks at most, and so how many events a crash can repeat. Default 50.
	BatchSize int
	// BatchBytes is about how much memory the events of a pass may take. Default 8 MiB.
	BatchBytes int
	// LeaseTTL is how long after a crash relays that lease lanes are kept away. Default 15 s, at least 5 s, at most 1 h.
	LeaseTTL time.Duration
	// PublishTimeout is how long a pass waits for Kafka before it lets its rows go. Default 30 s, at most 60 s.
	PublishTimeout time.Duration
	// DrainTimeout is how long a stop waits for what is outstanding. Default 10 s.
	DrainTimeout time.Duration
	// RetryInterval is how long a key is held after one of its events has failed for the first time; the time doubles with each failure, up to 60 times
	// as long. Default 5 s.
	RetryInterval time.Duration
	// TopicCheckInterval is the same for a topic that cannot be published to; its time doubles up to 16 times as long. Default 2 s.
	TopicCheckInterval time.Duration
	// StartTimeout is how long the relay tries to reach the database and the brokers, and waits for lanes to be free, for the first time.
	// Default 30 s; negative: for ever.
	StartTimeout time.Duration
	// StallTimeout is after how long without an acknowledgement, with events outstanding, publishing counts as stalled. Default 15 s.
	StallTimeout time.Duration
	// Topics are names that must exist when the relay starts, or 5 s later at the latest.
	Topics []string
	// Once makes Run end when a pass finds no row that it could take.
	Once bool
	// Logger gets one line for each change of state. Default: none.
	Logger *slog.Logger
	// LogKeys names partition keys in it, as the attribute key: they are the services' data.
	LogKeys bool

	// now is the clock that the registration and the held keys are counted by.
	now func() time.Time
	// jitter draws from zero to below its argument.
	jitter func(time.Duration) time.Duration
}

// maxPublishTimeout is well below the time after which the relay's loop counts as stuck.
const maxPublishTimeout = time.Minute

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = engine.ProcessName()
	}
	c.Version = cmp.Or(c.Version, "devel")
	c.PollInterval = cmp.Or(c.PollInterval, 100*time.Millisecond)
	c.BatchSize = cmp.Or(c.BatchSize, 50)
	c.BatchBytes = cmp.Or(c.BatchBytes, 8<<20)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 15*time.Second)
	c.PublishTimeout = cmp.Or(c.PublishTimeout, 30*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 10*time.Second)
	c.RetryInterval = cmp.Or(c.RetryInterval, 5*time.Second)
	c.TopicCheckInterval = cmp.Or(c.TopicCheckInterval, 2*time.Second)
	c.StartTimeout = cmp.Or(c.StartTimeout, 30*time.Second)
	c.StallTimeout = cmp.Or(c.StallTimeout, 15*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
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
	positive("BatchBytes", int64(c.BatchBytes))
	positive("DrainTimeout", int64(c.DrainTimeout))
	positive("RetryInterval", int64(c.RetryInterval))
	positive("TopicCheckInterval", int64(c.TopicCheckInterval))
	positive("StallTimeout", int64(c.StallTimeout))
	if c.PublishTimeout <= 0 || c.PublishTimeout > maxPublishTimeout {
		errs = append(errs, fmt.Errorf("PublishTimeout is %s; it must be positive and at most %s", c.PublishTimeout, maxPublishTimeout))
	}
	errs = append(errs, engine.CheckLeaseTTL(c.LeaseTTL, maxDelay))
	return errors.Join(errs...)
}
