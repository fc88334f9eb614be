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
	toBury  []DeadEvent
	// locked are given up and could not be moved yet: their rows were locked. Their letters are not sent another time meanwhile.
	locked []DeadEvent
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
	if err := t.source.Retry(ctx, t.keeper.current(), events); err != nil {
		return fmt.Errorf("write down %d failed events: %w", len(events), err)
	}
	now := t.cfg.now()
	for _, r := range waiting {
		t.gate.delay(r.Key)
		t.gate.decided(r.Key)
		t.attempts.lookAt(now.Add(r.Wait))
		t.lines.retried.say(ctx, r.FailedEvent, "attempt", r.made, "of", r.most, "again_in", engine.Rounded(r.Wait).String())
	}
	return nil
}

// bury moves the event to the dead ones, and its key goes on behind it. sent is where its letter is, nil when there is none.
func (t *term) bury(ctx context.Context, f FailedEvent, sent *Place) error {
	t.toBury = append(t.toBury, DeadEvent{FailedEvent: f, By: "relay " + t.owner.Name, Letter: sent})
	if len(t.toBury) < writeAtOnce {
		return nil
	}
	return t.writeBuried(ctx)
}

// writeBuried moves events, as many as the database takes at once; the others stay for another call.
func (t *term) writeBuried(ctx context.Context) error {
	dead := t.toBury[:min(len(t.toBury), writeAtOnce)]
	if len(dead) == 0 {
		return nil
	}
	became, err := t.source.Bury(ctx, t.keeper.current(), dead)
	if err != nil {
		return fmt.Errorf("bury %d events: %w", len(dead), err)
	}
	if t.toBury = t.toBury[len(became):]; len(t.toBury) == 0 {
		t.toBury = nil
	}
	var goOn []Key
	for i, b := range became {
		var refused *RefusedError
		switch d := dead[i]; {
		case errors.Is(b.Err, ErrLocked):
			t.locked = append(t.locked, d)
		case errors.As(b.Err, &refused):
			if err := t.park(ctx, unmovable(d, refused)); err != nil {
				return err
			}
		case b.Err != nil:
			return fmt.Errorf("bury event: %w", b.Err)
		default:
			t.buried(ctx, d, b.Moved)
			goOn = append(goOn, d.Key)
		}
	}
	t.gate.unpark(goOn...)
	return nil
}

// buried takes that the event stops its key no longer: it is with the dead ones, or somebody else has settled or removed it.
func (t *term) buried(ctx context.Context, d DeadEvent, moved bool) {
	t.gate.decided(d.Key)
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
