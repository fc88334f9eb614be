package relay

import (
	"context"
	"fmt"
	"time"
)

// minRead is how many events a read takes at first; reads grow while they come back full.
const minRead = 50

// read is the main loop: read, admit, publish. It returns nil when ctx ends or, with Config.Once, when everything is handed over and settled.
func (t *term) read(ctx context.Context) error {
	limit, wait := minRead, time.Millisecond
	average := 1024
	nextSweep := t.cfg.now().Add(t.cfg.SweepInterval)
	for ctx.Err() == nil {
		t.counters.lastTurn.Store(t.cfg.now().UnixNano())
		if keys, topics := t.gate.takeReleased(); len(keys)+len(topics) > 0 {
			t.source.Reread(keys, topics)
		}
		events, bytes := t.gate.free()
		n := min(limit, events, bytes/average)
		if n == 0 {
			t.awaitRoom(ctx)
			continue
		}
		batch, err := t.readBatch(ctx, n)
		if err != nil {
			return err
		}
		average = averageSize(batch.Events, average)
		if t.cfg.Once && !batch.Walking {
			if done, err := t.awaitSettled(ctx); done || err != nil {
				return err
			}
			continue
		}
		if batch.More {
			limit = min(2*limit, t.cfg.BatchSize)
			continue
		}
		limit = minRead
		if len(batch.Events) > 0 {
			wait = time.Millisecond
			continue
		}
		if t.cfg.SweepInterval > 0 && !batch.Walking && t.cfg.now().After(nextSweep) {
			if err := t.sweep(ctx); err != nil {
				return err
			}
			nextSweep = t.cfg.now().Add(t.cfg.SweepInterval)
		}
		t.pause(ctx, wait)
		wait = min(2*wait, t.cfg.PollInterval)
	}
	return nil
}

// readBatch reads once and hands over what may go out. The gate is told of the read's beginning and end, so that a row whose settle commits in between is
// not taken for a new one.
func (t *term) readBatch(ctx context.Context, n int) (Batch, error) {
	t.gate.beginRead()
	defer t.gate.endRead()
	batch, err := t.source.Read(ctx, n)
	if err != nil {
		return batch, fmt.Errorf("read events: %w", err)
	}
	t.counters.openWriters.Store(int64(batch.OpenWriters))
	t.cfg.step("read")
	if ready := t.gate.admit(batch.Events); len(ready) > 0 {
		t.publish(ready)
	}
	return batch, nil
}

// averageSize follows the size of events, so that a read does not take more than the memory budget has room for.
func averageSize(events []*Event, before int) int {
	if len(events) == 0 {
		return before
	}
	sum := 0
	for _, e := range events {
		sum += e.Size()
	}
	return max(1, sum/len(events))
}

// sweepBudget bounds the time of one sweep; the next one goes on where it stopped.
const sweepBudget = 200 * time.Millisecond

func (t *term) sweep(ctx context.Context) error {
	t.gate.beginRead()
	defer t.gate.endRead()
	found, err := t.source.Sweep(ctx, sweepBudget, t.gate.known, t.gate)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	if found > 0 {
		t.counters.sweepFinds.Add(int64(found))
		t.cfg.Logger.Warn("the sweep found forgotten events, they are published now", "events", found,
			"note", "ids drawn outside the INSERT, or a sequence with CACHE > 1, can cause this")
	}
	return nil
}

func (g *gate) known(ref Ref) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.inFlight[ref]
	return ok
}

// pause waits before the next read; a released key or topic ends it.
func (t *term) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-t.gate.released:
	}
}

// spillAfter is how long the reader waits for room before it asks whether some keys are stuck while others move.
const spillAfter = time.Second

// awaitRoom waits until the budget has room. When it stays full although Kafka acknowledges, keys that are stuck hold it: their waiting events are
// forgotten and read again later, so they cannot stop the others.
func (t *term) awaitRoom(ctx context.Context) {
	published := t.counters.published.Load()
	timer := time.NewTimer(spillAfter)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-t.gate.room:
	case <-timer.C:
		if t.counters.published.Load() > published {
			t.gate.spillWaiting()
		}
	}
}

// awaitSettled waits, with Config.Once, until everything in flight is settled. It returns false when something was released meanwhile, which has to
// be read first.
func (t *term) awaitSettled(ctx context.Context) (done bool, err error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		if t.gate.hasReleased() {
			return false, nil
		}
		if inFlight, _ := t.gate.load(); inFlight == 0 {
			return true, nil
		}
		if s := t.silentFor(); s > 2*t.cfg.StallTimeout {
			return false, &stopError{fmt.Errorf("Kafka has acknowledged nothing for %s: are the brokers reachable, and enough replicas in sync?", s.Round(time.Second))}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return true, nil
}
