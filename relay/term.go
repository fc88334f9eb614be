package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// term is the work under one claim. Its goroutines are the reader's loop, the outcomes, the settler, the lease keeper and the housekeeping
// (missing topics, requests); the first one that fails ends the term.
type term struct {
	*Relay
	claim  Claim
	gate   *gate
	keeper *keeper
	// failed carries events to be parked to the housekeeping.
	failed chan outcome

	mu       sync.Mutex
	outcomes []outcome
	arrived  signal
}

// lead works under the claim until ctx ends, everything is done with Config.Once, or the term fails. A nil error is a clean end.
func (r *Relay) lead(ctx context.Context, claim Claim, sent time.Time) error {
	t := &term{
		Relay:   r,
		claim:   claim,
		gate:    newGate(r.cfg.MaxInFlight, r.cfg.MaxInFlightBytes),
		keeper:  newKeeper(r.source, claim, r.cfg.LeaseTTL, r.silence, r.cfg.now, sent, r.publisher.Destroy),
		failed:  make(chan outcome, 1024),
		arrived: newSignal(),
	}
	defer t.keeper.stop()
	r.counters.gate.Store(t.gate)
	r.counters.leading.Store(true)
	defer r.counters.leading.Store(false)

	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	keeping := spawn(work, stop, t.keeper.run)
	if err := t.begin(work); err != nil {
		stop(err)
		<-keeping
		t.release(ctx, err)
		return err
	}
	resolve, endResolving := context.WithCancel(work)
	settle, endSettling := context.WithCancel(work)
	resolving := spawn(work, stop, func(work context.Context) error { return t.resolveLoop(resolve, work) })
	settling := spawn(work, stop, func(work context.Context) error { return r.settler.run(settle, work, t.settled) })
	housekeeping := spawn(work, stop, t.housekeep)

	// Reading stops first, when ctx ends or anything fails. The rest goes on until what is outstanding has come back and is settled: a
	// statement that settles is never cut off by the wish to stop.
	reading, stopReading := context.WithCancel(work)
	defer context.AfterFunc(ctx, stopReading)()
	err := t.read(reading)
	if err == nil || reading.Err() != nil {
		err = context.Cause(work)
	}
	left := t.drain(err == nil)
	defer time.AfterFunc(r.cfg.DrainTimeout, func() { stop(errDrainTimeout) }).Stop()
	endResolving()
	<-resolving
	endSettling()
	<-settling
	stop(err)
	<-keeping
	<-housekeeping
	t.release(ctx, err)
	if err == nil && (left > 0 || r.settler.waiting() > 0) {
		return &stopError{r.left(left)}
	}
	return err
}

var errDrainTimeout = errors.New("drain timeout")

// spawn runs f in a goroutine; its error ends the work. The channel is closed when it has returned.
func spawn(work context.Context, stop context.CancelCauseFunc, f func(context.Context) error) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(work); err != nil {
			stop(err)
		}
	}()
	return done
}

// begin opens the publisher and writes down what an earlier term could not.
func (t *term) begin(ctx context.Context) error {
	if err := t.publisher.Open(ctx); err != nil {
		t.countError(ClassOf(err))
		return fmt.Errorf("open publisher: %w", err)
	}
	if err := t.requireTopics(ctx); err != nil {
		return err
	}
	if err := t.settler.flush(ctx, func(events []*Event, n int) { t.countSettled(len(events), n) }); err != nil {
		return err
	}
	parked, err := t.source.ParkedKeys(ctx)
	if err != nil {
		return fmt.Errorf("read parked keys: %w", err)
	}
	for _, p := range parked {
		t.gate.park(p.Key)
	}
	if err := t.source.Start(ctx, t.gate); err != nil {
		return fmt.Errorf("start reading: %w", err)
	}
	t.opened = true
	t.counters.lastError.Store(nil)
	return nil
}

// requireTopics fails while a topic that the configuration names is missing.
func (t *term) requireTopics(ctx context.Context) error {
	if len(t.cfg.Topics) == 0 || t.opened {
		return nil
	}
	found, err := t.publisher.CheckTopics(ctx, t.cfg.Topics)
	if err != nil {
		return fmt.Errorf("check topics: %w", err)
	}
	var missing []error
	for _, name := range t.cfg.Topics {
		if found[name] != nil {
			missing = append(missing, found[name])
		}
	}
	if len(missing) > 0 {
		return &stopError{fmt.Errorf("topics that the configuration names: %w", errors.Join(missing...))}
	}
	return nil
}

// drain lets nothing new out and waits until nothing is outstanding. What is not back in time has its client destroyed, so that it cannot take
// effect later than the lease lasts. It returns how many events were left.
func (t *term) drain(clean bool) (left int) {
	t.gate.close()
	limit := t.keeper.remaining()
	if clean {
		limit = min(limit, t.cfg.DrainTimeout)
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		if _, left = t.gate.load(); left == 0 {
			return 0
		}
		select {
		case <-t.gate.quiet:
		case <-deadline.C:
			t.publisher.Destroy()
			return left
		}
	}
}

// release hands the lease back, unless it is lost.
func (t *term) release(ctx context.Context, cause error) {
	if errors.Is(cause, ErrLeaseLost) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := t.source.Release(ctx, t.claim); err != nil {
		t.cfg.Logger.Warn("release lease", "error", err)
	}
}

func (t *term) settled(events []*Event, n int) {
	t.gate.settled(events)
	t.countSettled(len(events), n)
}

func (r *Relay) countSettled(events, n int) {
	r.counters.settled.Add(int64(n))
	if foreign := events - n; foreign > 0 {
		if r.counters.foreign.Add(int64(foreign)) == int64(foreign) {
			r.cfg.Logger.Warn("somebody else settles this table", "table", r.info.Name, "events", foreign,
				"note", "two relays without a common lease publish events twice and out of order")
		}
	}
}

func (r *Relay) countError(c Class) {
	if c >= ClassOutage && c <= ClassUnknown {
		r.counters.errors[c].Add(1)
	}
}
