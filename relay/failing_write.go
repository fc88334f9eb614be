package relay

import (
	"context"
	"errors"
	"fmt"

	"github.com/outbox-relay/outbox/internal/engine"
)

// What was decided on failed events is written down many at once: one mistake may fail a hundred thousand of them, and a transaction for each would take an hour.

// writeAtOnce is of how many events one call writes down at most what was decided: their lanes are locked meanwhile.
const writeAtOnce = 2000

// decided is what housekeeping, which alone touches it, has decided and not written down.
type decided struct {
	toRetry []retried
	toBury  []burying
	// locked are given up and could not be moved yet: their rows were locked. Their letters are not sent another time meanwhile.
	locked []burying
	// giving are the keys of which events are given up; nil while there are none.
	giving map[Key]*givenUp
	// unsent are letters that were not sent through no fault of theirs: the next look sends them again. A stop leaves them, and their events, to the next relay.
	unsent []letter
}

// burying is an event that is to be moved.
type burying struct {
	DeadEvent
	// behind tells that it is not the one that has stopped its key, and may have publishable ones in front of it: unless it has a letter, one that is not moved waits for its turn.
	behind bool
	// locked tells that the log has said by whom its row is locked.
	locked bool
}

// retried is an event that is to be tried again, after made attempts of most.
type retried struct {
	RetriedEvent
	made, most int
}

// retryLater lets the key wait for the event's next attempt.
func (t *term) retryLater(ctx context.Context, r retried) error {
	t.toRetry = append(t.toRetry, r)
	if len(t.toRetry) < writeAtOnce {
		return nil
	}
	return t.writeRetried(ctx)
}

// writeRetried writes down that events wait for their next attempts. A key whose event is not unpublished any more has nothing to wait for, and goes on.
func (t *term) writeRetried(ctx context.Context) error {
	waiting := t.toRetry
	if len(waiting) == 0 {
		return nil
	}
	t.toRetry = nil
	events := make([]RetriedEvent, len(waiting))
	for i, r := range waiting {
		events[i] = r.RetriedEvent
	}
	gone, err := t.source.Retry(ctx, t.keeper.current(), events)
	if err != nil {
		return fmt.Errorf("write down %d failed events: %w", len(events), err)
	}
	goOn := setOf(gone)
	now := t.cfg.now()
	t.gate.unpark(gone...)
	for _, r := range waiting {
		t.gate.decided(r.Key)
		if _, ok := goOn[r.Key]; ok {
			t.attempts.acked([]Ref{r.Event})
			continue
		}
		t.gate.delay(r.Key)
		t.attempts.lookAt(now.Add(r.Wait))
		t.lines.retried.say(ctx, r.FailedEvent, "attempt", r.made, "of", r.most, "again_in", engine.Rounded(r.Wait).String())
	}
	t.freeSoon()
	return nil
}

// dead is the event as it is moved. sent is where its letter is, nil when there is none.
func (t *term) dead(f FailedEvent, sent *Place) DeadEvent {
	return DeadEvent{FailedEvent: f, By: "relay " + t.owner.Name, Letter: sent}
}

// bury moves the event to the dead ones, and its key goes on behind it.
func (t *term) bury(ctx context.Context, b burying) error {
	t.toBury = append(t.toBury, b)
	if len(t.toBury) < writeAtOnce {
		return nil
	}
	return t.writeBuried(ctx)
}

// writeBuried moves events, as many as the database takes at once; the others stay for another call.
func (t *term) writeBuried(ctx context.Context) error {
	some := t.toBury[:min(len(t.toBury), writeAtOnce)]
	if len(some) == 0 {
		return nil
	}
	dead := make([]DeadEvent, len(some))
	for i, b := range some {
		dead[i] = b.DeadEvent
	}
	became, err := t.source.Bury(ctx, t.keeper.current(), dead)
	if err != nil {
		return fmt.Errorf("bury %d events: %w", len(dead), err)
	}
	if t.toBury = t.toBury[len(became):]; len(t.toBury) == 0 {
		t.toBury = nil
	}
	var free []Key
	for i, b := range became {
		goOn, err := t.became(ctx, some[i], b)
		if err != nil {
			return err
		}
		if goOn {
			free = append(free, dead[i].Key)
		}
	}
	t.gate.unpark(free...)
	t.gate.decided(free...)
	return nil
}

// became takes what became of an event that was to be moved, and tells whether its key goes on.
func (t *term) became(ctx context.Context, d burying, b Burial) (goOn bool, err error) {
	var refused *RefusedError
	var stays *FailedEvent
	waits := d.behind && d.Letter == nil
	switch {
	case errors.Is(b.Err, ErrLocked) && !waits:
		if b.LockedBy != "" && !d.locked {
			d.locked = true
			t.lines.locked.say(ctx, d.FailedEvent, "locked_by", b.LockedBy)
		}
		t.locked = append(t.locked, d)
		return false, nil
	case errors.As(b.Err, &refused) && !waits:
		f := unmovable(d.DeadEvent, refused)
		stays = &f
	case errors.Is(b.Err, ErrLocked), refused != nil:
	case b.Err != nil:
		return false, fmt.Errorf("bury event: %w", b.Err)
	default:
		t.buried(ctx, d.DeadEvent, b.Moved)
	}
	return t.dealtWith(ctx, d.Key, stays)
}

// buried takes that the event stops its key no longer: it is with the dead ones, or somebody else has settled or removed it.
func (t *term) buried(ctx context.Context, d DeadEvent, moved bool) {
	if !moved {
		t.attempts.acked([]Ref{d.Event})
		return
	}
	t.attempts.forget(d.Event)
	t.counters.dead.Add(1)
	var letter []any
	if d.Letter != nil {
		letter = []any{"dead_letter", d.Letter.String()}
	}
	t.lines.buried.say(ctx, d.FailedEvent, letter...)
}

// unmovable is why the key of an event stops that the database does not let go.
func unmovable(d DeadEvent, refused *RefusedError) FailedEvent {
	f := d.FailedEvent
	if d.Letter != nil {
		f.Reason = fmt.Sprintf("%s; it is in the dead-letter topic %s", f.Reason, d.Letter)
	}
	f.Reason = fmt.Sprintf("%s; it should be moved to the dead events, and cannot be: %v", f.Reason, refused)
	return f
}

// buryLocked tries the events again whose rows were locked.
func (t *term) buryLocked(ctx context.Context) error {
	if len(t.locked) == 0 {
		return nil
	}
	t.toBury = append(t.toBury, t.locked...)
	t.locked = nil
	if err := t.writeBuried(ctx); err != nil {
		return err
	}
	if len(t.toBury) > 0 {
		t.toPark.set()
	}
	return t.writeParked(ctx)
}
