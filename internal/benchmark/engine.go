package benchmark

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// newRelay joins the relay as the command does, with its settings.
func (b *Bench) newRelay(once bool, acked *clock) (*relay.Relay, error) {
	source, err := postgres.New(b.cfg.Pool, postgres.Config{Table: b.table(), Settle: b.cfg.Settle, Logger: b.cfg.Logger, ApplicationName: "outbox-bench"})
	if err != nil {
		return nil, err
	}
	cfg := b.cfg.Kafka
	cfg.CreateTopics = nil
	publisher, err := kafka.NewPublisher(cfg)
	if err != nil {
		return nil, err
	}
	settings := b.cfg.Relay
	settings.Once = once
	return relay.New(source, watched{publisher, acked}, settings)
}

// clock remembers when Kafka has acknowledged each event. A nil one remembers nothing.
type clock struct {
	mu sync.Mutex
	at map[uuid.UUID]time.Time
}

func newClock() *clock { return &clock{at: map[uuid.UUID]time.Time{}} }

func (c *clock) note(id uuid.UUID) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.at[id]; !known {
		c.at[id] = now
	}
}

// missing is how many of the events are not acknowledged yet.
func (c *clock) missing(of map[uuid.UUID]time.Time) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range of {
		if _, known := c.at[id]; !known {
			n++
		}
	}
	return n
}

// since is how long the acknowledged ones took. One that was quicker than its COMMIT's answer took no time.
func (c *clock) since(committed map[uuid.UUID]time.Time) (all []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, at := range committed {
		if acked, known := c.at[id]; known {
			all = append(all, max(0, acked.Sub(at)))
		}
	}
	return all
}

// watched is the relay's publisher, with a clock at its answers.
type watched struct {
	*kafka.Publisher
	acked *clock
}

// Publish implements [relay.Publisher].
func (w watched) Publish(events []*relay.Event, done func(*relay.Event, error)) {
	if w.acked == nil {
		w.Publisher.Publish(events, done)
		return
	}
	w.Publisher.Publish(events, func(e *relay.Event, err error) {
		if err == nil {
			w.acked.note(e.EventID)
		}
		done(e, err)
	})
}
