package competing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
	"github.com/outbox-relay/outbox/relay"
)

// registration keeps a relay registered and, when it cannot, silences it in time. The time is counted from SENDING the last good renewal, by this
// process's monotonic clock: the database counted its TTL from a later moment.
type registration struct {
	source  Registrar
	owner   relay.Owner
	ttl     time.Duration
	silence time.Duration
	now     func() time.Time
	// publisher is silent from the deadline on by its own clock, also when the whole process stands still until then, and is destroyed by a timer.
	publisher silencer
	// silent is for how long Kafka has been silent.
	silent func() time.Duration
	// reported tells that a silence was reported last; the registration's own goroutine touches it.
	reported bool

	mu sync.Mutex
	// deadline is when the relay must be silent.
	deadline      time.Time
	timer         *time.Timer
	lost, stopped bool
}

// silencer is what the registration needs of a [relay.Publisher].
type silencer interface {
	SilentFrom(t time.Time)
	Destroy()
}

// register registers and starts the countdown.
func (g *registration) register(ctx context.Context) error {
	sent := g.now()
	if err := g.source.Register(ctx, g.owner, g.ttl); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deadline = sent.Add(g.silence)
	g.publisher.SilentFrom(g.deadline)
	g.timer = time.AfterFunc(g.deadline.Sub(g.now()), g.expire)
	return nil
}

// expire silences the relay, once, and never after stop: the client may be another term's by then.
func (g *registration) expire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost || g.stopped {
		return
	}
	g.lost = true
	g.publisher.Destroy()
}

func (g *registration) expired() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}

// remaining is how long the relay may still talk to the brokers.
func (g *registration) remaining() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, g.deadline.Sub(g.now()))
}

// extend begins the countdown anew from sent; false when the relay was silenced meanwhile.
func (g *registration) extend(sent time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost {
		return false
	}
	g.deadline = sent.Add(g.silence)
	g.publisher.SilentFrom(g.deadline)
	g.timer.Reset(g.deadline.Sub(g.now()))
	return true
}

// stop ends the countdown. It returns after a silencing that has begun.
func (g *registration) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	g.timer.Stop()
	g.publisher.SilentFrom(time.Time{})
}

// run renews until ctx ends. It returns relay.ErrLeaseLost, or why it cannot know.
func (g *registration) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(g.ttl / 3):
		}
		sent := g.now()
		err := g.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the work has ended: what the renewal met does not matter any more
		case g.expired(), g.remaining() == 0:
			g.expire()
			return g.tooLate()
		case errors.Is(err, relay.ErrLeaseLost):
			g.expire()
			return fmt.Errorf("renew registration: %w", err)
		case err != nil:
			return fmt.Errorf("renew registration: %w", err)
		}
		if !g.extend(sent) {
			return g.tooLate()
		}
		g.report(ctx)
	}
}

func (g *registration) tooLate() error {
	return fmt.Errorf("renew registration: not renewed within %s: %w", engine.Rounded(g.silence), relay.ErrLeaseLost)
}

// report says for how long Kafka has been silent, and once that it answers again. It is worth no failure: what is wrong with the database is the next renewal's.
func (g *registration) report(ctx context.Context) {
	silent := g.silent()
	if silent == 0 && !g.reported {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, g.remaining())
	defer cancel()
	if g.source.Report(ctx, g.owner, silent) == nil {
		g.reported = silent > 0
	}
}

func (g *registration) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.remaining())
	defer cancel()
	return g.source.Renew(ctx, g.owner, g.ttl)
}
