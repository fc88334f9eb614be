package relay

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// What becomes of a failed event. Its key has stopped in memory already; housekeeping decides, and writes it down:
//
//	failed ──▶ another attempt? ──yes──▶ the key waits for it ──▶ tried again
//	                  │ no
//	                  ▼
//	           park: the key waits for an operator
//	           dead-letter, skip: ──▶ letter acknowledged, if there is a topic for it ──▶ moved to the dead events, the key goes on
//
// A crash on the way repeats the step, from the attempt on.

// attempts is what a term knows of the records of its lanes' events.
type attempts struct {
	mu sync.Mutex
	// made is how often each event has failed that has a record.
	made map[Ref]int
	// due is when to look for events whose time has come; zero while none waits.
	due time.Time
	// published have a record, and are in Kafka.
	published []Ref
}

// failed counts one more failure.
func (a *attempts) failed(ref Ref) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.know(ref, a.made[ref]+1)
	return a.made[ref]
}

func (a *attempts) know(ref Ref, made int) {
	if a.made == nil {
		a.made = map[Ref]int{}
	}
	a.made[ref] = made
}

// madeOf is how often the event has failed.
func (a *attempts) madeOf(ref Ref) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.made[ref]
}

// lookAt has the database asked at the time, or before.
func (a *attempts) lookAt(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.due.IsZero() || at.Before(a.due) {
		a.due = at
	}
}

// takeDue tells whether it is time to look.
func (a *attempts) takeDue(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.due.IsZero() || now.Before(a.due) {
		return false
	}
	a.due = time.Time{}
	return true
}

// acked notes which of the events have a record that is to go.
func (a *attempts) acked(refs []Ref) (any bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.made) == 0 {
		return false
	}
	for _, ref := range refs {
		if _, has := a.made[ref]; has {
			delete(a.made, ref)
			a.published = append(a.published, ref)
		}
	}
	return len(a.published) > 0
}

func (a *attempts) takePublished() []Ref {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.published
	a.published = nil
	return p
}

func (a *attempts) forget(ref Ref) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.made, ref)
}

// readFailing takes in the records of lanes that are gained.
func (t *term) readFailing(ctx context.Context, lanes []int32) error {
	records, err := t.source.Failing(ctx, lanes)
	if err != nil {
		return fmt.Errorf("read failed events: %w", err)
	}
	for _, r := range records {
		t.attempts.mu.Lock()
		t.attempts.know(r.Event, r.Attempts)
		t.attempts.mu.Unlock()
		if r.Waits {
			t.gate.delay(r.Key)
			t.attempts.lookAt(t.cfg.now().Add(r.In))
		}
		if r.Crashes > 0 {
			t.careful.suspect(r)
		}
	}
	return nil
}

// decide does what the policy says of a failed event.
func (t *term) decide(ctx context.Context, o outcome) error {
	if code, _ := ReasonOf(o.err); code == CodeAggregateParked {
		return t.decideFollower(ctx, o.event)
	}
	f := t.failedEvent(o.event, o.err)
	if f.Code == CodeCrashLoop {
		return t.park(ctx, f)
	}
	p, made := t.cfg.policyOf(f.Topic), t.attempts.failed(f.Event)
	switch most := p.attempts(o.err); {
	case made < most:
		return t.retryLater(ctx, retried{RetriedEvent{f, p.backoff(made, t.cfg.jitter)}, made, most})
	case p.OnFailure == Park:
		return t.park(ctx, f)
	case p.DeadLetterTopic != "" && p.letterTopic(f.Topic) == f.Topic:
		f.Reason += "; the topic is its own dead-letter topic, so nothing was sent there: give it a policy of its own"
		return t.park(ctx, f)
	}
	return t.giveUp(ctx, p, f, o, made)
}

// failedEvent is what is kept of an event's failure.
func (t *term) failedEvent(e *Event, err error) FailedEvent {
	code, reason := ReasonOf(err)
	return FailedEvent{Key: e.Key(), Event: e.Ref(), EventType: e.Type, Aggregate: t.cfg.scopeOf(e), Code: cmp.Or(code, "UNPUBLISHABLE"), Reason: reason}
}

// tryAgain lets the keys go on whose events' time has come. The database decides that; this process's clock says only when to ask.
func (t *term) tryAgain(ctx context.Context) error {
	now := t.cfg.now()
	if t.gate.delayedKeys() == 0 || !t.attempts.takeDue(now) {
		return nil
	}
	for until, more := now.Add(decideFor), true; more && t.cfg.now().Before(until); {
		due, err := t.source.Due(ctx, t.keeper.current())
		if err != nil {
			return fmt.Errorf("look for events to be tried again: %w", err)
		}
		for _, f := range due {
			t.gate.hasten(f.Key)
		}
		more = len(due) > 0
	}
	if t.gate.delayedKeys() > 0 {
		t.attempts.lookAt(now.Add(t.cfg.LookInterval))
	}
	return nil
}

// clearPublished removes the records of events that are in Kafka.
func (t *term) clearPublished(ctx context.Context) error {
	published := t.attempts.takePublished()
	if len(published) == 0 {
		return nil
	}
	if err := t.source.Clear(ctx, published, nil); err != nil {
		return fmt.Errorf("forget failed attempts: %w", err)
	}
	return nil
}

// letter is a letter on its way, with what it is about.
type letter struct {
	FailedEvent
	Letter
}

// answered is a letter's outcome; place is where it is, without an error.
type answered struct {
	letter
	place Place
	err   error
}

// post sends a letter; what becomes of it arrives in housekeeping.
func (t *term) post(l letter) {
	t.mu.Lock()
	t.letters++
	t.mu.Unlock()
	t.letterer.PublishLetter(l.Letter, func(place Place, err error) {
		t.mu.Lock()
		t.letters--
		t.answers = append(t.answers, answered{l, place, err})
		t.mu.Unlock()
		t.toPark.set()
	})
}

// postUnsent sends letters again that were not sent through no fault of theirs.
func (t *term) postUnsent() {
	unsent := t.unsent
	t.unsent = nil
	for _, l := range unsent {
		t.post(l)
	}
}

// answerLetter goes on with an event whose letter has an outcome.
func (t *term) answerLetter(ctx context.Context, a answered) error {
	f := a.FailedEvent
	if a.err == nil {
		t.counters.letters.Add(1)
		return t.bury(ctx, burying{DeadEvent: t.dead(f, &a.place)})
	}
	switch ClassOf(a.err) {
	case ClassHeld:
		t.unsent = append(t.unsent, a.letter)
		return nil
	case ClassEvent, ClassTopic:
		code, reason := ReasonOf(a.err)
		f.Reason = refusedLetter(engine.Short(a.Letter.Topic), code, reason, f.Reason)
		_, err := t.dealtWith(ctx, f.Key, &f)
		return err
	}
	// As with an event: the client is gone, and the term with it.
	return fmt.Errorf("publish to a dead-letter topic: %w", a.err)
}

// refusedLetter is why a key stops whose dead-letter topic takes nothing, with a command that can be copied. That names the topic and not the key: the reason is in the log, and a key is the
// services' data. What the topic has answered stands first: outbox status and outbox topics read it there.
func refusedLetter(topic, code, reason, why string) string {
	said := fmt.Sprintf("dead-letter topic %s does not take it: %s", topic, code)
	return fmt.Sprintf("the %s: %s; when it does, let what waits for it go on: outbox keys unpark --error '%s'; why it is to go there: %s",
		said, reason, strings.ReplaceAll(said, "'", `'\''`), why)
}
