package relay

import (
	"context"
	"errors"
)

// One wrong limit may fail thousands of events of one key. Each of them would cost a turn of its own: publish, fail, move, read the key again. Where a policy gives an event up,
// those behind it that the publisher refuses as well are therefore given up with it, and the key is read again once for all of them.

// Refused is an event that a [Publisher] refuses without having sent anything of it, and why: an error of ClassEvent.
type Refused struct {
	Event *Event
	Err   error
}

// BehindError is the Err of a [PublishError] of ClassEvent whose publisher knows more than the one event: it refuses later events of the same key and the same call, too. Those
// are answered by themselves as always, with ClassHeld. A publisher that knows nothing of the kind leaves it out.
type BehindError struct {
	// Err says why the event failed.
	Err error
	// Behind are the others, in order; those between them may be publishable.
	Behind []Refused
}

func (e *BehindError) Error() string { return e.Err.Error() }

func (e *BehindError) Unwrap() error { return e.Err }

// givenUp is a key of which events are given up.
type givenUp struct {
	// open is of how many it is not known yet whether they are moved.
	open int
	// stays is the first of those that cannot be moved: the key stops at it. Nil while there is none.
	stays *FailedEvent
}

// giveUp gives an event up that has stopped its key, after as many attempts as made, and what is to be given up behind it. Their number is known before the first of them is
// moved, so that the key goes on with the last one.
func (t *term) giveUp(ctx context.Context, p Policy, f FailedEvent, o outcome, made int) error {
	behind := t.alsoGivenUp(p, o.err)
	if t.giving == nil {
		t.giving = map[Key]*givenUp{}
	}
	t.giving[f.Key] = &givenUp{open: 1 + len(behind)}
	if err := t.sendOrBury(ctx, p, burying{DeadEvent: t.dead(f, nil)}, o.event, made); err != nil {
		return err
	}
	for _, r := range behind {
		t.countError(ClassEvent)
		b := burying{DeadEvent: t.dead(t.failedEvent(r.Event, r.Err), nil), behind: true}
		if err := t.sendOrBury(ctx, p, b, r.Event, t.attempts.madeOf(r.Event.Ref())+1); err != nil {
			return err
		}
	}
	return nil
}

// alsoGivenUp are the events that the publisher refuses behind the one that has failed, as far as they are to be given up: one that is to be tried again, and what follows it, has
// its turn later.
func (t *term) alsoGivenUp(p Policy, err error) []Refused {
	var more *BehindError
	if !errors.As(err, &more) {
		return nil
	}
	for i, r := range more.Behind {
		if t.attempts.madeOf(r.Event.Ref())+1 < p.attempts(r.Err) {
			return more.Behind[:i]
		}
	}
	return more.Behind
}

// sendOrBury has an event moved, once its letter is acknowledged if there is to be one.
func (t *term) sendOrBury(ctx context.Context, p Policy, b burying, e *Event, made int) error {
	if p.DeadLetterTopic != "" {
		t.post(letter{b.FailedEvent, Letter{Topic: p.letterTopic(b.Topic), Event: e, Code: b.Code, Reason: b.Reason, Attempts: made, At: t.cfg.now()}})
		return nil
	}
	if p.OnFailure == Skip {
		b.Reason = "skipped by policy: " + b.Reason
	}
	return t.bury(ctx, b)
}

// dealtWith takes what became of an event that was given up; stays is not nil when it cannot be moved. With the last of its key the key goes on, which the caller has it do, or
// stops.
func (t *term) dealtWith(ctx context.Context, key Key, stays *FailedEvent) (goOn bool, err error) {
	g := t.giving[key]
	if stays != nil && (g.stays == nil || stays.Event.ID < g.stays.Event.ID) {
		g.stays = stays
	}
	if g.open--; g.open > 0 {
		return false, nil
	}
	delete(t.giving, key)
	if g.stays != nil {
		return false, t.park(ctx, *g.stays)
	}
	return true, nil
}
