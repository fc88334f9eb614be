package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// minRead is how many events a read takes at first; reads grow while they come back full.
const minRead = 50

// reader is the state of the main loop.
type reader struct {
	*term
	// limit is how many events the next read takes at most, average their expected size in bytes.
	limit, average int
	// wait is the next pause.
	wait      time.Duration
	nextSweep time.Time
	// reread is when something was read again last.
	reread time.Time
	// full is since when the budget has limited the reads, published what was acknowledged then, and patience for how long that may last.
	full      time.Time
	published int64
	patience  time.Duration
	care      care
	// choked tells that it was said that nothing is read any more.
	choked bool
}

// read is the main loop: read, admit, publish. It returns nil when ctx ends or, with Config.Once, when everything is handed over and settled.
func (t *term) read(ctx context.Context) error {
	r := &reader{
		term:      t,
		limit:     min(minRead, t.cfg.BatchSize),
		average:   1024,
		wait:      time.Millisecond,
		nextSweep: t.cfg.now().Add(t.cfg.SweepInterval),
	}
	for ctx.Err() == nil {
		if done, err := r.turn(ctx); done || err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) turn(ctx context.Context) (done bool, err error) {
	r.counters.lastTurn.Store(r.cfg.now().UnixNano())
	version := r.careful.at()
	r.readAgain()
	if r.gate.sourcePaused() {
		return r.restPaused(ctx)
	}
	n := r.room()
	if n == 0 {
		if err := r.noteChoked(); err != nil {
			return false, err
		}
		r.awaitRoom(ctx)
		return false, nil
	}
	batch, err := r.readBatch(ctx, n)
	if err != nil {
		return false, err
	}
	r.average = averageSize(batch.Events, r.average)
	r.endCare(batch, version)
	if r.cfg.Once && !batch.Walking {
		return r.awaitSettled(ctx)
	}
	if !batch.Walking {
		if err := r.sweepWhenDue(ctx); err != nil {
			return false, err
		}
	}
	switch {
	case batch.More:
		r.limit = min(2*r.limit, r.cfg.BatchSize)
	case len(batch.Events) > 0:
		r.limit, r.wait = min(minRead, r.cfg.BatchSize), time.Millisecond
	default:
		r.limit = min(minRead, r.cfg.BatchSize)
		r.pause(ctx, r.wait)
		r.wait = min(2*r.wait, r.cfg.PollInterval)
	}
	return false, nil
}

// restPaused waits while the source is paused: what is read now would have to be read again. With Config.Once nobody would wait for the end of it.
func (r *reader) restPaused(ctx context.Context) (done bool, err error) {
	if r.cfg.Once {
		return r.awaitSettled(ctx)
	}
	r.pause(ctx, max(r.cfg.PollInterval, pausedTurn))
	return false, nil
}

// pausedTurn is how often the loop shows that it is alive while there is nothing to do.
const pausedTurn = time.Second

// rereadInterval keeps events that come back again and again from being sent in a tight loop; what is released meanwhile is read in one pass.
const rereadInterval = 50 * time.Millisecond

// readAgain has the source read again what was released.
func (r *reader) readAgain() {
	if r.untilReread() > 0 {
		return
	}
	again := r.gate.takeReleased()
	if len(again.forget) > 0 {
		r.source.Forget(again.forget)
	}
	if len(again.keys)+len(again.topics)+len(again.lanes) > 0 {
		r.source.Reread(again.keys, again.topics, again.lanes)
		r.reread = r.cfg.now()
	}
}

func (r *reader) untilReread() time.Duration {
	return rereadInterval - r.cfg.now().Sub(r.reread)
}

// readBatch reads once and hands over what may go out. The gate is told of the read's beginning and end, so that a row whose settle commits in between is
// not taken for a new one.
func (t *term) readBatch(ctx context.Context, n int) (Batch, error) {
	t.gate.beginRead()
	defer t.gate.endRead()
	asked := t.cfg.now()
	batch, err := t.source.Read(ctx, n)
	t.counters.noteRead(asked, t.cfg.now(), batch, err)
	if err != nil {
		return batch, fmt.Errorf("read events: %w", err)
	}
	t.counters.openWriters.Store(int64(batch.OpenWriters))
	t.cfg.step("read")
	if ready := t.gate.admit(batch.Events); len(ready) > 0 {
		t.publish(ready)
	}
	t.stopKeys(t.gate.takeMet())
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

func (r *reader) sweepWhenDue(ctx context.Context) error {
	if r.cfg.SweepInterval < 0 || r.cfg.now().Before(r.nextSweep) {
		return nil
	}
	err := r.sweep(ctx)
	r.nextSweep = r.cfg.now().Add(r.cfg.SweepInterval)
	return err
}

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

// pause waits before the next read; a released key or topic ends it.
func (r *reader) pause(ctx context.Context, d time.Duration) {
	if released, _, _ := r.gate.rest(); released {
		d = min(d, max(0, r.untilReread()))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-r.gate.released:
	}
}

// spillAfter is how long keys may be without an answer, while the budget limits the reads, before their waiting events are forgotten.
const spillAfter = time.Second

// room returns how many events the budget lets the next read take. When it stays the bound, keys that are stuck may hold all of it: their waiting events are
// forgotten and read again later, so they cannot stop the others.
func (r *reader) room() int {
	events, bytes := r.gate.free()
	n := 0
	if events > 0 && bytes > 0 {
		n = min(r.limit, events, max(1, bytes/r.average))
	}
	now := r.cfg.now()
	switch {
	case n == r.limit:
		r.full = time.Time{}
	case r.full.IsZero():
		r.full, r.published, r.patience = now, r.counters.published.Load(), spillAfter
	case now.Sub(r.full) >= r.patience:
		r.makeRoom(now)
	}
	return n
}

// makeRoom forgets all stuck keys' waiting events when others move. When none does, a single key may be why, or all brokers are away: then it tries one
// key, and the next one after twice the time, so that an outage does not make it read the whole table.
func (r *reader) makeRoom(now time.Time) {
	published := r.counters.published.Load()
	if published > r.published {
		r.gate.spillStuck(now.Add(-spillAfter))
		r.patience = spillAfter
	} else {
		r.gate.spillLargest()
		r.patience *= 2
	}
	r.full, r.published = now, published
}

// noteChoked says when nothing can be read any more because of events that can never be settled. With Config.Once that is the end: nobody would wait for it.
func (r *reader) noteChoked() error {
	if r.choked || !r.gate.choked() {
		return nil
	}
	r.choked = true
	err := r.errChoked()
	if r.cfg.Once {
		return &engine.StopError{Err: err}
	}
	r.cfg.Logger.Error("nothing is read any more", "error", err)
	return nil
}

// awaitRoom waits until the budget has room, or until it is time to look for stuck keys.
func (r *reader) awaitRoom(ctx context.Context) {
	timer := time.NewTimer(spillAfter)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-r.gate.room:
	}
}

// awaitSettled waits, with Config.Once, until everything in flight is settled. It returns false when something was released meanwhile, which has to
// be read first.
func (r *reader) awaitSettled(ctx context.Context) (done bool, err error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var deciding time.Time
	for ctx.Err() == nil {
		free := r.lanesFree() // asked first: a lane that was taken is to be read before it stops being free
		gaining := r.gaining() || free
		released, inFlight, undecided := r.gate.rest()
		if released && r.untilReread() <= 0 {
			return false, nil
		}
		// A key may go on behind an event of which is still to be decided.
		open := r.cfg.givesUp() && undecided > 0
		if !gaining && !released && inFlight == 0 && !open && !r.gate.holding() && !r.gate.looseAny() && !r.mayAppear() {
			return true, nil
		}
		now := r.cfg.now()
		switch {
		case !open:
			deciding = time.Time{}
		case deciding.IsZero():
			deciding = now
		case now.Sub(deciding) > 2*r.cfg.StallTimeout:
			return false, &engine.StopError{Err: fmt.Errorf("failed events could not be given up for %s: does the dead-letter topic take anything, and the database?", engine.Rounded(now.Sub(deciding)))}
		}
		if s := r.gate.silentFor(); s > 2*r.cfg.StallTimeout {
			return false, &engine.StopError{Err: fmt.Errorf("Kafka has acknowledged nothing for %s: are the brokers reachable, and enough replicas in sync?", s.Round(time.Second))}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return true, nil
}
