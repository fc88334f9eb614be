package competing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
	"github.com/outbox-relay/outbox/relay"
)

// term is what the passes of one registration share.
type term struct {
	*Relay
	// stop ends when no new pass is to begin.
	stop context.Context //nolint:containedctx // the term is what the context is the life of
	// watched is when the source was last watched.
	watched time.Time
	// noted are the held topics that this term has written down: an earlier one may have left something.
	noted engine.Ledger[relay.HeldTopic]
}

// work makes passes while the relay is registered, and withdraws when it is certain that nothing of it is on the way to Kafka any more.
func (r *Relay) work(ctx context.Context, g *registration) error {
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	renewed := make(chan error, 1)
	go func() {
		renewed <- g.run(stop)
		cancel()
	}()
	r.counters.leading.Store(true)
	t := &term{Relay: r, stop: stop, watched: r.cfg.now()}
	err := t.passes()
	r.counters.leading.Store(false)
	cancel()
	lost := <-renewed
	g.Stop()
	if r.unknown == 0 && !g.Expired() {
		r.withdraw(ctx)
	}
	if lost != nil {
		return lost
	}
	return err
}

// withdraw may fail: then the registration runs out by itself.
func (r *Relay) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.MaxBackoff)
	defer cancel()
	if err := r.source.Withdraw(ctx, r.owner); err != nil {
		r.cfg.Logger.Warn("registration not ended; it runs out", "error", err, "within", r.cfg.LeaseTTL.String())
	}
}

// minIdle is the first wait when there is nothing to do.
const minIdle = 5 * time.Millisecond

// passes makes one after the other: at once while they come back full, after doubling waits while they do not.
func (t *term) passes() error {
	idle := minIdle
	for t.stop.Err() == nil {
		t.counters.turned(t.cfg.now())
		got, err := t.pass()
		if err == nil {
			err = t.noteTopics()
		}
		if err != nil {
			return err
		}
		t.counters.lastError.Store(nil)
		if t.cfg.Once && got.Handed == 0 {
			return nil
		}
		if got.Settled > 0 {
			idle = minIdle
			if got.More {
				continue
			}
		}
		t.watch()
		t.ask()
		select {
		case <-t.stop.Done():
		case <-time.After(min(idle, t.cfg.PollInterval)):
		}
		idle = min(2*idle, t.cfg.PollInterval)
	}
	return nil
}

// watchInterval is how often conditions are looked at that may change while the relay works.
const watchInterval = time.Minute

func (t *term) watch() {
	w, able := t.source.(relay.Watcher)
	if now := t.cfg.now(); able && now.Sub(t.watched) >= watchInterval {
		t.watched = now
		// What it finds it says by itself; an error is the next look's.
		_ = w.Watch(t.stop)
	}
}

// pass takes a batch to Kafka. It is finished although the relay is to stop.
func (t *term) pass() (Result, error) {
	var answers []answer
	keys, topics := t.held.active()
	ask := Ask{Limit: t.cfg.BatchSize, Bytes: t.cfg.BatchBytes, HeldKeys: keys, HeldTopics: topics}
	got, err := t.source.Pass(context.WithoutCancel(t.stop), ask, func(ctx context.Context, events []*relay.Event) []relay.Ref {
		answers = t.publish(ctx, events)
		return acked(answers)
	})
	t.counters.inFlight.Store(0)
	unknown := t.learn(answers)
	var partly *relay.UnsettledError
	if errors.As(err, &partly) {
		t.keepUnsettled(answers, partly)
		err = nil
	}
	t.counters.settled.Add(int64(got.Settled))
	switch {
	case err != nil:
		return got, fmt.Errorf("pass: %w", err)
	case unknown != nil:
		return got, fmt.Errorf("publish: %w", unknown)
	}
	return got, nil
}

// learn holds what has failed. It returns the first outcome that nobody knows: then the client is gone, and the term with it.
func (t *term) learn(answers []answer) (unknown error) {
	for _, a := range answers {
		if a.err == nil {
			t.held.acked(a.event)
			t.topic = a.event.Topic
			continue
		}
		class := relay.ClassOf(a.err)
		t.counters.failed(class)
		switch class {
		case relay.ClassEvent:
			if wait := t.held.failKey(a.event.Key(), a.err); wait > 0 {
				code, reason := relay.ReasonOf(a.err)
				t.cfg.Logger.Error("event failed: its key is held, the others go on", engine.WithKey(t.cfg.LogKeys, a.event.PartitionKey,
					"topic", engine.Short(a.event.Topic), "id", a.event.ID, "event_id", a.event.EventID, "code", code, "reason", reason, "again_in", wait.String())...)
			}
		case relay.ClassTopic:
			if wait := t.held.failTopic(a.event.Topic, a.err); wait > 0 {
				code, reason := relay.ReasonOf(a.err)
				t.cfg.Logger.Error("topic held: its events wait, the others go on", "topic", engine.Short(a.event.Topic), "code", code, "reason", reason,
					"again_in", wait.String())
			}
		case relay.ClassHeld:
			// It comes again with its key.
		default:
			t.unknown++
			if unknown == nil {
				unknown = a.err
			}
		}
	}
	if unknown != nil {
		t.counters.noteUnanswered(unixNano(t.counters.since.Load()))
		t.life.QuietUntil = t.cfg.now().Add(t.publisher.MaxDelay())
	}
	return unknown
}

// keepUnsettled holds the keys of rows that are in Kafka and cannot be marked: each further try would be a duplicate.
func (t *term) keepUnsettled(answers []answer, e *relay.UnsettledError) {
	rows := map[relay.Ref]struct{}{}
	for _, ref := range e.Refs {
		rows[ref] = struct{}{}
	}
	for _, a := range answers {
		if _, ok := rows[a.event.Ref()]; ok {
			t.held.keepKey(a.event.Key(), e.Err)
		}
	}
	t.counters.unsettled.Add(int64(len(e.Refs)))
	t.cfg.Logger.Error("published events cannot be marked: their keys are held until the relay is started again, and then these events are published again",
		"events", len(e.Refs), "first_id", e.Refs[0].ID, "error", e.Err)
}
