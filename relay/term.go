package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// term is the work from the first lanes on until something ends it. Its goroutines are the reader's loop, the outcomes, the settler, the lease keeper and the housekeeping
// (parking, missing topics, requests); the first one that fails ends the term.
type term struct {
	*Relay
	gate   *gate
	keeper *keeper
	// end ends the term; its first cause counts.
	end context.CancelCauseFunc

	mu       sync.Mutex
	outcomes []outcome
	// failed are events whose keys have stopped and of which is to be decided.
	failed []outcome
	// letters counts those that have no outcome; answers are the outcomes of others.
	letters int
	answers []answered
	decided
	// held are keys that are held for operators' requests until they are idle, since when; housekeeping alone touches it.
	held map[Key]time.Time
	// toStop are events whose keys are to be parked, no key twice; housekeeping alone touches it.
	toStop []FailedEvent
	// gained are lanes that were claimed and whose parked keys are to be read.
	gained []int32
	// undecided are topics that stopped before the source's first publication; the goroutine of the outcomes alone touches it.
	undecided map[string]error
	// heldLines are those of held topics, which the goroutine of the outcomes logs; rounds and ordered are of the housekeeping, which asks for them.
	heldLines, ordered few
	rounds             topicRounds
	// arrived is set with outcomes, toPark with failed, toGain with gained; requested when an operator wants something, toFree when keys wait for aggregates that nothing stops.
	arrived, toPark, toGain, requested, toFree signal
	// begun tells that the term reads and publishes; published is how much the relay had published before.
	begun     atomic.Bool
	published int64
	attempts  attempts
	careful   *careful
	learning  learning
	// lines is what is said of failed events; housekeeping alone touches it.
	lines *failureLines
	// stopping tells that lanes are neither taken nor left any more.
	stopping atomic.Bool
	// free is how many lanes nobody had at the last look; negative before the first.
	free atomic.Int64
	// pauses is what is paused, as far as is known: read when the term begins, and from then on by the goroutine that talks about leases.
	pauses Pauses
	// pausesKnown is closed when they were read for the first time.
	pausesKnown chan struct{}
}

// lead works under the claim until ctx ends, everything is done with Config.Once, or the term fails. A nil error is a clean end.
func (r *Relay) lead(ctx context.Context, claim Claim, sent time.Time) error {
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	t := &term{
		Relay:     r,
		gate:      newGate(r.cfg.MaxInFlight, r.cfg.MaxInFlightBytes, r.cfg.now, r.info.Lanes, claim.Lanes),
		keeper:    newKeeper(r.source, claim, r.cfg.LeaseTTL, r.silence, r.cfg.now, sent, r.publisher),
		end:       end,
		undecided: map[string]error{},
		held:      map[Key]time.Time{},
		arrived:   newSignal(),
		toPark:    newSignal(),
		toGain:    newSignal(),
		requested: newSignal(),
		toFree:    newSignal(),
		published: r.counters.published.Load(),

		pausesKnown: make(chan struct{}),
	}
	t.gate.took = r.counters.publish
	t.lines = newFailureLines(r.cfg.Logger, r.cfg.LogKeys, r.cfg.now)
	t.careful = newCareful(r.info.Lanes, r.cfg.MaxInFlight)
	t.careful.add(claim.Abandoned)
	if r.cfg.parksAggregates() {
		t.gate.scope = newScope(t.parks)
	}
	t.free.Store(-1)
	t.requested.set()
	t.noteLanes(claim)
	defer t.keeper.Stop()
	r.counters.gate.Store(t.gate)
	defer r.counters.lanes.Store(0)

	keeping := t.spawn(work, t.keep)
	err := t.begin(ctx, work, claim.Lanes)
	if err == nil {
		err = t.run(ctx, work)
	} else if cause := context.Cause(work); cause != nil {
		err = cause
	}
	end(err)
	keeping.finish()
	if t.unknown > 0 {
		t.life.QuietUntil = t.cfg.now().Add(t.publisher.MaxDelay())
	}
	t.release(ctx, err)
	return err
}

// run lets events move until reading ends, then finishes what has begun. Reading stops first, when ctx ends or anything fails. The rest goes on until what
// is outstanding has come back and is settled: it runs on a context of its own, so that neither a stop nor a failure elsewhere cuts off a statement
// that settles or leaves an answer of Kafka unheard.
func (t *term) run(ctx, work context.Context) error {
	finish, cut := context.WithCancel(context.WithoutCancel(work))
	defer cut()
	resolving := t.spawn(finish, t.resolveLoop)
	trying := t.spawn(finish, func(stop context.Context) error { return t.publishCarefully(stop, finish) })
	settling := t.spawn(finish, func(stop context.Context) error { return t.settler.run(stop, finish, t.settled) })
	housekeeping := t.spawn(finish, func(stop context.Context) error { return t.housekeep(stop, work, finish) })

	reading, stopReading := context.WithCancel(work)
	defer context.AfterFunc(ctx, stopReading)()
	if err := t.read(reading); err != nil && reading.Err() == nil {
		t.fail(err)
	}
	t.stopping.Store(true)
	deadline := t.cfg.now().Add(t.cfg.DrainTimeout)
	t.drain()
	rest := max(deadline.Sub(t.cfg.now()), min(settleGrace, t.cfg.DrainTimeout))
	defer time.AfterFunc(rest, cut).Stop()
	trying.finish()
	resolving.finish()
	settling.finish()
	housekeeping.finish()
	if cause := context.Cause(work); cause != nil {
		return cause
	}
	if err := t.left(); err != nil {
		return &engine.StopError{Err: err}
	}
	return nil
}

// settleGrace is the least time that is left to the statements that settle, when the publisher has used up the drain's.
const settleGrace = 2 * time.Second

// fail ends the term. When the lease is another relay's, or may be, because the server that knew of it is gone, or is to be another's, not even what is
// outstanding may still reach Kafka.
func (t *term) fail(err error) {
	t.end(err)
	if errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrServerChanged) || errors.Is(err, errResigned) {
		t.publisher.Destroy()
	}
}

// worker is a goroutine of a term.
type worker struct {
	stop context.CancelFunc
	done chan struct{}
}

// spawn runs f; its error ends the term. stop, which f is given, ends when f is to finish what it has.
func (t *term) spawn(parent context.Context, f func(stop context.Context) error) worker {
	stop, cancel := context.WithCancel(parent)
	w := worker{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		if err := f(stop); err != nil {
			t.fail(err)
		}
	}()
	return w
}

// finish waits until the worker has ended.
func (w worker) finish() {
	w.stop()
	<-w.done
}

// begin opens the publisher, writes down what an earlier term could not, and starts reading the lanes. ctx or work end it.
func (t *term) begin(ctx, work context.Context, lanes []int32) error {
	opening, cancel := context.WithCancel(work)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	t.unknown = 0
	if err := t.openPublisher(opening); err != nil {
		return err
	}
	if err := t.requireTopics(opening); err != nil {
		return err
	}
	t.lookForLetterTopics(opening)
	if err := t.settleEarlier(ctx); err != nil {
		return err
	}
	if err := t.readParked(opening, lanes); err != nil {
		return err
	}
	if err := t.readFailing(opening, lanes); err != nil {
		return err
	}
	if err := t.learnAnew(opening); err != nil {
		return err
	}
	if err := t.readPauses(opening); err != nil {
		return err
	}
	close(t.pausesKnown)
	if err := t.source.Start(opening, t.gate, lanes); err != nil {
		return fmt.Errorf("start reading: %w", err)
	}
	t.life.Opened = true
	t.begun.Store(true)
	t.counters.lastError.Store(nil)
	return nil
}

func (t *term) readParked(ctx context.Context, lanes []int32) error {
	parked, err := t.source.ParkedKeys(ctx, lanes)
	if err != nil {
		return fmt.Errorf("read parked keys: %w", err)
	}
	for _, p := range parked {
		t.gate.park(p.Key)
		t.askFor(p.Key.Topic)
		switch {
		case p.Code != CodeAggregateParked:
			t.rooted(p)
		case t.aggregates != nil:
			t.gate.followed(p.Key, p.Aggregate)
		}
	}
	t.freeSoon()
	return nil
}

// openPublisher makes sure that the client it leaves open does not outlive the lease: one that was silenced meanwhile may have been made anew.
func (t *term) openPublisher(ctx context.Context) error {
	attempt, cancel := t.life.Attempt(ctx)
	defer cancel()
	asked := t.cfg.now()
	err := t.publisher.Open(attempt)
	if t.keeper.Expired() {
		t.publisher.Destroy()
		return t.keeper.tooLate()
	}
	if err != nil {
		t.countError(ClassOf(err))
		t.noteUnanswered(asked)
		return fmt.Errorf("open publisher: %w", err)
	}
	t.noteProof()
	return nil
}

// settleEarlier is not cut off by a stop before the drain timeout is over: what it settles is in Kafka.
func (t *term) settleEarlier(ctx context.Context) error {
	settling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(t.cfg.DrainTimeout, cancel) })()
	err := t.settler.flush(settling, t.countSettled)
	t.gate.stick(t.settler.stuckRefs())
	return err
}

// requireTopics fails when a topic that the configuration names is missing.
func (t *term) requireTopics(ctx context.Context) error {
	names := slices.Concat(t.cfg.Topics, t.cfg.letterTopics())
	if len(names) == 0 || t.life.Opened {
		return nil
	}
	missing, err := engine.MissingTopics(ctx, names, t.publisher.CheckTopics)
	if err != nil {
		return fmt.Errorf("check topics: %w", err)
	}
	if missing != nil {
		return &engine.StopError{Err: fmt.Errorf("%w: topics that must exist: %w", ErrConfiguration, missing)}
	}
	return nil
}

// drain lets nothing new out and waits until nothing is outstanding. What is not back in time, or when the lease runs out, has its client
// destroyed, so that it cannot take effect later than the lease lasts.
func (t *term) drain() {
	t.gate.close()
	t.giveBack(t.careful.close())
	deadline := time.NewTimer(t.cfg.DrainTimeout)
	defer deadline.Stop()
	for {
		if _, outstanding := t.gate.load(); outstanding == 0 {
			return
		}
		select {
		case <-t.gate.quiet:
		case <-deadline.C:
			t.publisher.Destroy()
			return
		}
	}
}

// release hands the lanes back, unless they are lost. When a client was destroyed with events outstanding, the leases run out by themselves: a produce
// that is still on its way would land behind what the next relay publishes. They are kept as well, for this relay's next term, when there is something to settle:
// the next owner would publish it again. A relay that has resigned hands them back as soon as nothing can be on its way any more.
func (t *term) release(ctx context.Context, cause error) {
	unsettled := t.settler.waiting() > 0 && ctx.Err() == nil
	if errors.Is(cause, ErrLeaseLost) {
		t.counters.lost.Add(int64(len(t.lease.Lanes)))
	}
	if errors.Is(cause, ErrLeaseLost) || t.unknown > 0 || unsettled {
		t.registered = false
		t.resigned = errors.Is(cause, errResigned) && !unsettled
	}
	if errors.Is(cause, errResigned) {
		t.noteResignation()
	}
	t.leave(ctx)
}

func (t *term) settled(s settlement) {
	t.gate.settled(s.refs)
	if s.unsettled != nil {
		t.gate.stick(s.unsettled.Refs)
	}
	t.countSettled(s)
	if foreign := len(s.refs) - s.found; foreign > 0 && !t.keeper.Expired() {
		t.noteForeign(foreign)
	}
}

// noteForeign counts events that were settled before, or deleted, while their lanes were this relay's. What an earlier term left behind, or one whose lease
// has run out, may have been settled by the next owner.
func (r *Relay) noteForeign(events int) {
	if r.counters.foreign.Add(int64(events)) == int64(events) {
		r.cfg.Logger.Warn("somebody else settles this table", "table", r.info.Name, "events", events,
			"note", "two relays without a common lease publish events twice and out of order")
	}
}

func (r *Relay) countSettled(s settlement) {
	if s.unsettled != nil {
		r.noteUnsettled(s.unsettled)
	}
	r.counters.settled.Add(int64(s.found))
}

func (r *Relay) countError(c Class) {
	if c >= ClassOutage && c <= ClassUnknown {
		r.counters.errors[c].Add(1)
	}
}
