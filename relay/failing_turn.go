package relay

import (
	"context"
	"fmt"
	"time"
)

// Deciding takes turns with the rest of housekeeping. One mistake, such as a limit that is too low, may fail a hundred thousand events at once, and the operator who mends it
// is not to wait until the last of them is written down.

const (
	// decideFor is after how long a turn begins nothing more.
	decideFor = 200 * time.Millisecond
	// parkAtOnce is how many keys are parked by one call at most: their lanes are locked meanwhile.
	parkAtOnce = 500
)

// decideFailed decides on events that have failed, and goes on with those whose letters were answered, for a while. What is left has a next turn.
func (t *term) decideFailed(ctx context.Context) error {
	until, more := t.cfg.now().Add(decideFor), true
	for more && t.cfg.now().Before(until) {
		var err error
		if more, err = t.decideNext(ctx); err != nil {
			return err
		}
	}
	if err := t.writeDecided(ctx, until); err != nil {
		return err
	}
	if more || len(t.toBury) > 0 {
		t.toPark.set()
	}
	return t.clearPublished(ctx)
}

// writeDecided writes down what was decided; of what is to be moved, a part at least.
func (t *term) writeDecided(ctx context.Context, until time.Time) error {
	if err := t.writeRetried(ctx); err != nil {
		return err
	}
	for first := true; len(t.toBury) > 0 && (first || t.cfg.now().Before(until)); first = false {
		if err := t.writeBuried(ctx); err != nil {
			return err
		}
	}
	return t.writeParked(ctx)
}

// decideNext goes on with one event that has failed and with one letter that was answered, so that neither waits for all of the others. It returns false when there are none.
func (t *term) decideNext(ctx context.Context) (any bool, err error) {
	t.mu.Lock()
	o, failed := pop(&t.failed)
	a, answered := pop(&t.answers)
	t.mu.Unlock()
	if failed {
		err = t.decide(ctx, o)
	}
	if answered && err == nil {
		err = t.answerLetter(ctx, a)
	}
	return failed || answered, err
}

// pop takes the first element off a queue, and lets go of what it holds.
func pop[T any](queue *[]T) (first T, ok bool) {
	if len(*queue) == 0 {
		return first, false
	}
	var none T
	first, (*queue)[0] = (*queue)[0], none
	*queue = (*queue)[1:]
	return first, true
}

// decideRest is the last time: it decides on everything, and waits for the letters that are on their way.
func (t *term) decideRest(ctx context.Context) error {
	for {
		if err := t.decideFailed(ctx); err != nil || t.unfinished() == 0 {
			return err
		}
		select {
		case <-t.toPark:
		case <-ctx.Done():
			return nil
		}
	}
}

// unfinished is of how many failed events it is not known yet what becomes of them.
func (t *term) unfinished() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failed) + t.letters + len(t.answers) + len(t.toBury)
}

// park has it written down that the key stops at this event: together with others, and at the latest when the turn ends.
func (t *term) park(ctx context.Context, f FailedEvent) error {
	if f.Code != CodeAggregateParked {
		t.gate.stopAggregate(StoppedAggregate{f.Aggregate, f.Key, f.Event})
	}
	t.toStop = append(t.toStop, f)
	if len(t.toStop) < parkAtOnce {
		return nil
	}
	return t.writeParked(ctx)
}

// writeParked parks the keys. One whose event is not unpublished any more has nothing to stop at, and goes on: an operator has given the event up before it was
// written down that it stops anything.
func (t *term) writeParked(ctx context.Context) error {
	stopped := t.toStop
	if len(stopped) == 0 {
		return nil
	}
	t.toStop = nil
	keys := make([]ParkedKey, len(stopped))
	for i, f := range stopped {
		keys[i] = ParkedKey{Key: f.Key, Event: f.Event, EventType: f.EventType, Aggregate: f.Aggregate, Code: f.Code, Reason: f.Reason}
	}
	gone, err := t.source.Park(ctx, t.keeper.current(), keys)
	if err != nil {
		return fmt.Errorf("park %d keys: %w", len(keys), err)
	}
	goOn := setOf(gone)
	t.gate.unpark(gone...)
	for _, f := range stopped {
		t.gate.decided(f.Key)
		if _, ok := goOn[f.Key]; ok {
			t.attempts.acked([]Ref{f.Event})
			continue
		}
		if f.Code == CodeAggregateParked {
			t.gate.followed(f.Key, f.Aggregate)
			t.lines.followed.say(ctx, f)
			continue
		}
		t.lines.parked.say(ctx, f)
	}
	t.freeSoon()
	return nil
}

func setOf(keys []Key) map[Key]struct{} {
	set := make(map[Key]struct{}, len(keys))
	for _, key := range keys {
		set[key] = struct{}{}
	}
	return set
}
