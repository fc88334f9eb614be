package benchmark

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// Limits of [Config].
const (
	MaxEvents   = 10_000_000
	MaxSize     = 1_000_000
	MaxRate     = 100_000
	MaxDuration = 10 * time.Minute
	// MinSize is the smallest payload: an object with a number and a text.
	MinSize = 50
)

// Config says what to measure, and where. Pool and Kafka.Brokers are required.
type Config struct {
	// Pool is the database; its role must be allowed to create schemas. The relay connects as it does.
	Pool *pgxpool.Pool
	// Kafka is the cluster, as the relay has it. CreateTopics says how the scratch topic is made.
	Kafka kafka.Config
	// Relay are the settings of the relay that is measured; its topics and policies are not used.
	Relay relay.Config
	// Settle is how the relay settles.
	Settle postgres.SettleMode
	// Events are how many wait when the drain begins, 1 to MaxEvents. Default: 20,000.
	Events int
	// Size is that of a payload, in bytes, MinSize to MaxSize. Default: 350.
	Size int
	// Keys are how many partition keys the events are spread over. Default: 1,000.
	Keys int
	// Rate is how many transactions a second the writers begin while latency is measured, for Duration. Defaults: 200 a second, 5 s.
	Rate     int
	Duration time.Duration
	// Progress, when not nil, is told what begins: one short line each, without a line end.
	Progress func(text string)
	// Logger gets what the relay logs. Default: none.
	Logger *slog.Logger

	// now is the clock by which a run is named and leftovers are judged.
	now func() time.Time
	// stall is how long the drain may stand still. Default: 60 s.
	stall time.Duration
	// step, when not nil, is called at the points where an interruption is tested.
	step func(point string)
}

func (c Config) withDefaults() Config {
	set := func(value *int, fallback int) {
		if *value == 0 {
			*value = fallback
		}
	}
	set(&c.Events, 20_000)
	set(&c.Size, 350)
	set(&c.Keys, 1000)
	set(&c.Rate, 200)
	if c.stall == 0 {
		c.stall = time.Minute
	}
	if c.Duration == 0 {
		c.Duration = 5 * time.Second
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.step == nil {
		c.step = func(string) {}
	}
	c.Kafka.Logger, c.Relay.Logger = c.Logger, c.Logger
	c.Relay.Topics, c.Relay.Policies, c.Relay.Once = nil, nil, false
	return c
}

func (c Config) validate() error {
	var problems []error
	between := func(what string, value, low, high int) {
		if value < low || value > high {
			problems = append(problems, fmt.Errorf("%s %d: want %d to %d", what, value, low, high))
		}
	}
	between("events", c.Events, 1, MaxEvents)
	between("size", c.Size, MinSize, MaxSize)
	between("keys", c.Keys, 1, MaxEvents)
	between("rate", c.Rate, 1, MaxRate)
	if c.Duration < 0 || c.Duration > MaxDuration {
		problems = append(problems, fmt.Errorf("duration %s: want at most %s", c.Duration, MaxDuration))
	}
	if c.Pool == nil {
		problems = append(problems, errors.New("pool: there is none"))
	}
	return errors.Join(problems...)
}
