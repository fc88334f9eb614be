package competing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
	"github.com/outbox-relay/outbox/relay"
)

// registration keeps a relay registered and, when it cannot, silences it in time.
type registration struct {
	// Countdown runs from register on.
	*engine.Countdown
	source    Registrar
	owner     relay.Owner
	ttl       time.Duration
	silence   time.Duration
	now       func() time.Time
	publisher engine.Silencer
	// silent is for how long Kafka has been silent.
	silent func() time.Duration
	// reported tells that a silence was reported last; the registration's own goroutine touches it.
	reported bool
}

// register registers and starts the countdown.
func (g *registration) register(ctx context.Context) error {
	sent := g.now()
	if err := g.source.Register(ctx, g.owner, g.ttl); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	g.Countdown = engine.NewCountdown(g.silence, g.now, sent, g.publisher)
	return nil
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
		case g.Expired(), g.Remaining() == 0:
			g.Expire()
			return g.tooLate()
		case errors.Is(err, relay.ErrLeaseLost):
			g.Expire()
			return fmt.Errorf("renew registration: %w", err)
		case err != nil:
			return fmt.Errorf("renew registration: %w", err)
		}
		if !g.Extend(sent) {
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
	ctx, cancel := context.WithTimeout(ctx, g.Remaining())
	defer cancel()
	if g.source.Report(ctx, g.owner, silent) == nil {
		g.reported = silent > 0
	}
}

func (g *registration) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.Remaining())
	defer cancel()
	return g.source.Renew(ctx, g.owner, g.ttl)
}
