package relay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// publish hands events over; what becomes of them arrives at the resolve loop.
func (t *term) publish(events []*Event) {
	if t.careful.active.Load() {
		events = t.careful.take(events)
	}
	if len(events) == 0 {
		return
	}
	t.cfg.step("publish")
	t.publisher.Publish(events, t.done)
}

// done is called by the publisher for each event. It only queues: what follows may publish again, which the publisher forbids here.
func (t *term) done(e *Event, err error) {
	t.mu.Lock()
	t.outcomes = append(t.outcomes, outcome{e, err})
	first := len(t.outcomes) == 1
	t.mu.Unlock()
	if first {
		t.arrived.set()
	}
}

// resolveLoop turns outcomes into what follows from them, until stop ends and nothing is queued. It goes on when the term has failed: what is
// outstanding then is still answered, and what is acknowledged is still to be settled.
func (t *term) resolveLoop(stop context.Context) error {
	looks := time.NewTicker(t.cfg.LookInterval)
	defer looks.Stop()
	for {
		select {
		case <-stop.Done():
			t.resolve()
			return nil
		case <-t.arrived:
			t.resolve()
		case <-looks.C:
			t.decideHeld()
			t.sumHeld()
		}
	}
}

func (t *term) resolve() {
	t.mu.Lock()
	outcomes := t.outcomes
	t.outcomes = nil
	t.mu.Unlock()
	if len(outcomes) == 0 {
		return
	}
	v := t.gate.resolve(outcomes)
	t.count(outcomes, len(v.acked))
	if len(v.acked) > 0 {
		t.cfg.step("acked")
	}
	t.settler.add(v.acked)
	if t.attempts.acked(v.acked) {
		t.toPark.set()
	}
	t.unknown += v.unknowns
	if len(v.ready) > 0 {
		t.publish(v.ready)
	}
	t.stopKeys(v.failed)
	for name, err := range v.heldTopics {
		t.topicHeld(name, err)
	}
	if v.unknown != nil {
		t.fail(fmt.Errorf("publish: %w", v.unknown))
	}
	t.decideHeld()
}

func (t *term) count(outcomes []outcome, acked int) {
	now := t.cfg.now()
	if acked > 0 {
		t.counters.published.Add(int64(acked))
		t.counters.lastAck.Store(now.UnixNano())
		t.noteProof()
		t.counters.noteTopics(outcomes)
	}
	for _, o := range outcomes {
		if o.err != nil {
			t.countError(ClassOf(o.err))
			t.askFor(o.event.Topic)
		} else {
			t.noteTopic(o.event.Topic)
			t.counters.noteAcked(o.event, now)
		}
	}
}

// stopKeys leaves failed events to the housekeeping, which decides what becomes of them.
func (t *term) stopKeys(failed []outcome) {
	if len(failed) == 0 {
		return
	}
	t.mu.Lock()
	t.failed = append(t.failed, failed...)
	t.mu.Unlock()
	t.toPark.set()
}

// mayAppear tells that a topic is held that brokers may not have heard of yet: it is asked for at every look.
func (t *term) mayAppear() bool {
	now := t.cfg.now()
	for _, since := range t.gate.missing() {
		if now.Sub(since) < engine.TopicGrace {
			return true
		}
	}
	return false
}

// topicHeld says that a topic stopped. Before the source's first publication that is not decided yet: see decideHeld.
func (t *term) topicHeld(name string, err error) {
	code, reason := ReasonOf(err)
	if !t.cfg.Once && t.info.FirstPublished.IsZero() && t.counters.published.Load() == 0 {
		t.undecided[name] = err
		t.cfg.Logger.Warn("topic cannot be published to: the relay ends unless it is in order in a moment, for nothing was ever published from this table",
			"topic", engine.Short(name), "code", code, "reason", reason, "within", engine.TopicGrace.String())
		return
	}
	if !t.heldLines.allow(t.cfg.now()) {
		t.sumHeld()
		return
	}
	t.cfg.Logger.Error("topic held: its events wait, the others go on", "topic", engine.Short(name), "code", code, "reason", reason,
		"checked_every", t.cfg.TopicCheckInterval.String())
}

// sumHeld says how many topics have stopped without a line of their own.
func (t *term) sumHeld() {
	if n := t.heldLines.due(t.cfg.now()); n > 0 {
		t.cfg.Logger.Error("more topics held: their events wait, the others go on", "topics", n, "note", "outbox topics lists them")
	}
}

// decideHeld ends the run for a topic that stopped before the source's first publication and has not appeared since, if nothing of other topics is published either:
// whoever set it up is standing by and has probably mistyped the name. It waits for the answers that are outstanding, and leaves unknown ones to the next term.
func (t *term) decideHeld() {
	if len(t.undecided) == 0 || t.unknown > 0 {
		return
	}
	published := t.counters.published.Load() > 0
	if _, outstanding := t.gate.load(); !published && outstanding > 0 {
		return
	}
	missing := t.gate.missing()
	for _, name := range slices.Sorted(maps.Keys(t.undecided)) {
		err := t.undecided[name]
		since, still := missing[name]
		switch {
		case !still:
			delete(t.undecided, name)
		case published:
			delete(t.undecided, name)
			t.topicHeld(name, err)
		case t.cfg.now().Sub(since) >= engine.TopicGrace:
			delete(t.undecided, name)
			t.fail(&engine.StopError{Err: fmt.Errorf("nothing was ever published from %s: %w", t.info.Name, err)})
		}
	}
}
