package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// conflictTries is how often a transaction is made that loses against others, before its records have to wait.
const conflictTries = 5

// conflictPause is the pause after the first lost conflict; it doubles. Half of it is random, so that those that have met do not meet again.
const conflictPause = 5 * time.Millisecond

// commit handles all of the work in one transaction, or nothing of it.
//
// A failure as of a server that is away, while it answers, is made good once: at once, and no attempt is spent. A server that was restarted in the middle of a
// handler has done that, and is there again. The second one in a row is the record's own, such as one that ends its session.
func (p *Processor[Tx]) commit(ctx context.Context, batch []work[Tx], out []Outcome) (err error) {
	broken := false
	for n := range conflictTries {
		err = p.try(ctx, batch, out)
		again := errors.Is(err, errConflict)
		if errors.Is(err, errAnswers) && !broken && len(batch) == 1 {
			broken, again = true, true
		}
		if !again || ctx.Err() != nil {
			return err
		}
		rest(ctx, conflictPause<<n)
	}
	return err
}

// rest waits for half of the time and a random part of the other half.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d/2 + time.Duration(randomOf(int64(d/2)+1))):
	}
}

// turn is one transaction with its work.
type turn[Tx any] struct {
	claimed bool
	// by is the id of the transaction that has the claims, as its rows have it.
	by string
	// fresh is the work that was claimed, left what of it was not begun with.
	fresh, left []work[Tx]
	// at is what was begun with last; cause why that failed, and own what its handler has returned of that itself.
	at         work[Tx]
	begun      bool
	late       bool
	cause, own error
}

func (p *Processor[Tx]) try(ctx context.Context, batch []work[Tx], out []Outcome) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := time.AfterFunc(p.cfg.Timeout, cancel)
	defer patience.Stop()
	ids, first := p.claim(batch)
	var t turn[Tx]
	err := inTx(within, p.store, first, func(tx Tx, returned []string) error {
		if t.claimed = patience.Stop(); !t.claimed {
			return within.Err()
		}
		t.by, returned = claimedBy(returned)
		t.fresh = p.unhandled(batch, ids, returned, out)
		t.left = t.fresh
		for len(t.left) > 0 && t.cause == nil {
			t.at, t.left, t.begun = t.left[0], t.left[1:], true
			p.inTime(within, cancel, tx, &t)
		}
		if t.cause == nil {
			t.cause = p.stillWithin(within, tx, &t)
		}
		return t.cause
	})
	if err != nil && !t.claimed && len(ids) > 0 {
		err = fmt.Errorf("remember %d events for consumer %s: %w", len(ids), p.consumer, explain(err))
	}
	unknown := errors.Is(err, ErrUnavailable) && t.cause == nil // a commit without an answer
	if err != nil && ctx.Err() == nil {
		err = p.proven(ctx, within, &t, err)
	}
	if err != nil && !unknown && (ctx.Err() != nil || !errors.Is(err, ErrUnavailable)) {
		err = p.takeBack(ctx, &t, err)
	}
	return err
}

// proven is the error of a transaction. What looks as if the database were away, and what took too long, is looked into: the database may be there.
func (p *Processor[Tx]) proven(ctx, within context.Context, t *turn[Tx], err error) error {
	switch {
	case t.late:
		// What it says of a connection that was closed to end the handler is nobody's business.
		return p.there(ctx, fmt.Errorf("not handled within %s, which is Config.Timeout: %s", p.cfg.Timeout, withoutMark(err)))
	case !t.claimed && within.Err() != nil:
		return p.there(ctx, fmt.Errorf("%w for %s", errBusy, p.cfg.Timeout))
	case t.begun && errors.Is(err, ErrUnavailable) && t.cause != nil:
		return p.there(ctx, fmt.Errorf("%w: %w", errAnswers, t.cause)) // it may be marked as permanent
	case t.begun && errors.Is(err, ErrUnavailable):
		return p.there(ctx, fmt.Errorf("%w: %s", errAnswers, withoutMark(err)))
	}
	return err
}

// inTime runs the handler of what the turn is at. The end of its time is that of the transaction, which a handler may use without it.
func (p *Processor[Tx]) inTime(ctx context.Context, end context.CancelFunc, tx Tx, t *turn[Tx]) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	ends := context.AfterFunc(ctx, end)
	w := t.at
	alarm := time.AfterFunc(2*p.cfg.Timeout, func() {
		p.cfg.Logger.Warn("a handler does not end although its context has: it holds a worker until it does",
			"consumer", p.consumer, "record", w.record.Place().String(), "event_type", p.typeOf(w.record), "for", (2 * p.cfg.Timeout).String())
	})
	defer alarm.Stop()
	t.own, t.cause = p.run(ctx, tx, w)
	ends()
	if t.late = ctx.Err() != nil; t.late && t.cause == nil {
		t.own, t.cause = ctx.Err(), ctx.Err() // a handler that does not look at its context is no quicker for that
	}
}

func (p *Processor[Tx]) typeOf(r *Record) string {
	kind, _ := p.kind(r)
	return kind
}

// there tells what has failed or taken too long from a database that does not answer.
func (p *Processor[Tx]) there(ctx context.Context, otherwise error) error {
	ctx, cancel := context.WithTimeout(ctx, proof)
	defer cancel()
	if err := inTx(ctx, p.store, statement{}, func(Tx, []string) error { return nil }); err != nil {
		return err
	}
	return otherwise
}

// proof is how long a database that is there takes at most for nothing.
const proof = 5 * time.Second

func withoutMark(err error) string {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		if parts := joined.Unwrap(); errors.Is(parts[0], ErrUnavailable) {
			return parts[len(parts)-1].Error()
		}
	}
	return err.Error()
}
