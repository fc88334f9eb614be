package relay

import (
	"context"
	"fmt"
	"time"
)

// publish hands events over; what becomes of them arrives at the resolve loop.
func (t *term) publish(events []*Event) {
	t.cfg.step("publish")
	t.counters.stallSince.CompareAndSwap(0, t.cfg.now().UnixNano())
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

// resolveLoop turns outcomes into what follows from them, until stop ends and nothing is queued.
func (t *term) resolveLoop(stop, work context.Context) error {
	for {
		select {
		case <-stop.Done():
			return t.resolve(work)
		case <-t.arrived:
		}
		if err := t.resolve(work); err != nil {
			return err
		}
	}
}

func (t *term) resolve(work context.Context) error {
	t.mu.Lock()
	outcomes := t.outcomes
	t.outcomes = nil
	t.mu.Unlock()
	if len(outcomes) == 0 {
		return nil
	}
	for _, o := range outcomes {
		if o.err != nil {
			t.countError(ClassOf(o.err))
		}
	}
	v := t.gate.resolve(outcomes)
	t.noteAcks(len(v.acked))
	if len(v.acked) > 0 {
		t.cfg.step("acked")
	}
	t.settler.add(v.acked)
	for _, o := range v.failed {
		select {
		case t.failed <- o:
		case <-work.Done():
		}
	}
	for name, err := range v.heldTopics {
		if err := t.topicHeld(name, err); err != nil {
			return err
		}
	}
	if v.unknown != nil {
		return fmt.Errorf("publish: %w", v.unknown)
	}
	if len(v.ready) > 0 {
		t.publish(v.ready)
	}
	return nil
}

// noteAcks keeps the clock of the brokers' silence: it runs while events are outstanding and begins anew with every answer.
func (t *term) noteAcks(acked int) {
	now := t.cfg.now().UnixNano()
	if acked > 0 {
		t.counters.published.Add(int64(acked))
		t.counters.lastAck.Store(now)
	}
	if _, outstanding := t.gate.load(); outstanding > 0 {
		t.counters.stallSince.Store(now)
	} else {
		t.counters.stallSince.Store(0)
	}
}

// silentFor is how long events have been outstanding without an answer.
func (t *term) silentFor() time.Duration {
	since := t.counters.stallSince.Load()
	if since == 0 {
		return 0
	}
	return t.cfg.now().Sub(time.Unix(0, since))
}

// topicHeld says that a topic stopped. Before the source's first publication this ends the run: whoever set it up is standing by and has probably
// mistyped the name. Later, and with Once, the topic waits.
func (t *term) topicHeld(name string, err error) error {
	if !t.cfg.Once && t.info.FirstPublished.IsZero() && t.counters.published.Load() == 0 {
		return &stopError{fmt.Errorf("nothing was ever published from %s: %w", t.info.Name, err)}
	}
	t.cfg.Logger.Error("topic held: its events wait, the others go on", "topic", name, "error", err, "checked_every", t.cfg.TopicCheckInterval.String())
	return nil
}
