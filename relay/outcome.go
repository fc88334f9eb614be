package relay

import (
	"context"
	"fmt"
)

// publish hands events over; what becomes of them arrives at the resolve loop.
func (t *term) publish(events []*Event) {
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
	for {
		select {
		case <-stop.Done():
			t.resolve()
			return nil
		case <-t.arrived:
			t.resolve()
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
}

func (t *term) count(outcomes []outcome, acked int) {
	if acked > 0 {
		t.counters.published.Add(int64(acked))
		t.counters.lastAck.Store(t.cfg.now().UnixNano())
	}
	for _, o := range outcomes {
		if o.err != nil {
			t.countError(ClassOf(o.err))
		}
	}
}

// stopKeys leaves failed events to the housekeeping, which writes down that their keys are parked.
func (t *term) stopKeys(failed []outcome) {
	if len(failed) == 0 {
		return
	}
	t.mu.Lock()
	t.failed = append(t.failed, failed...)
	t.mu.Unlock()
	t.toPark.set()
}

// topicHeld says that a topic stopped. Before the source's first publication this ends the run: whoever set it up is standing by and has probably
// mistyped the name. Later, and with Once, the topic waits.
func (t *term) topicHeld(name string, err error) {
	if !t.cfg.Once && t.info.FirstPublished.IsZero() && t.counters.published.Load() == 0 {
		t.fail(&stopError{fmt.Errorf("nothing was ever published from %s: %w", t.info.Name, err)})
		return
	}
	t.cfg.Logger.Error("topic held: its events wait, the others go on", "topic", name, "error", err, "checked_every", t.cfg.TopicCheckInterval.String())
}
