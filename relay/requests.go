package relay

import (
	"context"
	"fmt"
	"time"
)

const (
	// idleWithin is how long a call that carries requests out waits until nothing of the keys is in flight.
	idleWithin = 50 * time.Millisecond
	idleEvery  = 2 * time.Millisecond
	// holdFor is how long a key is held that is not idle by then. A key that is always busy would never be idle if it went on; one whose records do not come
	// back goes on after that, and is asked for again at the next look.
	holdFor = 5 * time.Second
)

// carryOut has the source do a part of what operators ask for. Keys that are asked about are held meanwhile, and those that are busy until they are idle.
func (t *term) carryOut(ctx context.Context) error {
	var idle []Key
	done, err := t.source.Requests(ctx, t.keeper.current(), func(keys []Key) []Key {
		var busy []Key
		idle, busy = t.awaitIdle(ctx, t.gate.hold(keys))
		t.keepHeld(busy)
		return idle
	})
	t.lookAgain(ctx, done)
	t.gate.unpark(done.Released...)
	t.gate.readAgain(done.Changed)
	if done.Done > 0 {
		// An event that waits for its next attempt may be due now.
		t.attempts.lookAt(t.cfg.now())
	}
	for _, key := range idle {
		delete(t.held, key)
	}
	t.gate.unhold(idle)
	t.freeSoon()
	if n := len(done.Released) + len(done.Changed); n > 0 {
		t.cfg.Logger.Info("keys go on: operators' requests were carried out", "keys", n, "requests", done.Done)
	}
	if err != nil {
		return fmt.Errorf("carry out requests: %w", err)
	}
	if done.More {
		// What was left is asked about again when the round is over.
		for key := range t.held {
			t.held[key] = t.cfg.now()
		}
		t.requested.set()
	}
	return nil
}

// awaitIdle returns those of the held keys of which nothing is in flight, in a moment at the latest, and nothing undecided; and the others. It waits for no decision: they are
// made by whoever calls it.
func (t *term) awaitIdle(ctx context.Context, held []Key) (idle, others []Key) {
	tick := time.NewTicker(idleEvery)
	defer tick.Stop()
	idle, busy, others := t.gate.idle(held)
	for until := t.cfg.now().Add(idleWithin); len(busy) > 0 && t.cfg.now().Before(until); {
		select {
		case <-ctx.Done():
			return idle, append(others, busy...)
		case <-tick.C:
		}
		var more, deciding []Key
		more, busy, deciding = t.gate.idle(busy)
		idle, others = append(idle, more...), append(others, deciding...)
	}
	return idle, append(others, busy...)
}

// keepHeld leaves keys held until they are asked about again.
func (t *term) keepHeld(busy []Key) {
	now := t.cfg.now()
	for _, key := range busy {
		if _, kept := t.held[key]; !kept {
			t.held[key] = now
		}
	}
}

// letGo lets keys go on that are held for too long: they do not become idle, or nobody asks about them any more.
func (t *term) letGo() {
	now := t.cfg.now()
	var over []Key
	for key, since := range t.held {
		if now.Sub(since) >= holdFor {
			delete(t.held, key)
			over = append(over, key)
		}
	}
	t.gate.unhold(over)
}
