package inbox

import (
	"context"
	"errors"
	"strings"
)

// claim is what writes down the ids of the work; nothing when it has none.
func (p *Processor[Tx]) claim(batch []work[Tx]) (ids []string, claim statement) {
	for _, w := range batch {
		if w.id != "" {
			ids = append(ids, w.id)
		}
	}
	switch len(ids) {
	case 0:
		return nil, statement{}
	case 1:
		return ids, statement{claimOneSQL, []any{p.consumer, ids[0]}}
	}
	return ids, statement{claimSQL, []any{p.consumer, array(ids)}}
}

// unhandled is the work that no one has done before, by what came back from its claim. It also says so in the outcomes.
func (p *Processor[Tx]) unhandled(batch []work[Tx], ids, returned []string, out []Outcome) (left []work[Tx]) {
	isNew := unclaimed(ids, returned)
	for _, w := range batch {
		fresh := w.id == ""
		if !fresh {
			fresh, isNew = isNew[0], isNew[1:]
		}
		if out[w.n].Result = Repeat; fresh {
			out[w.n].Result = Handled
			left = append(left, w)
		}
	}
	return left
}

// claimedBy takes apart what a claim returns: the id of its transaction, and those of events.
func claimedBy(returned []string) (by string, ids []string) {
	for _, row := range returned {
		of, id, _ := strings.Cut(row, " ")
		by, ids = of, append(ids, id)
	}
	return by, ids
}

// run calls a handler, in a goroutine that it may end. own is what it has returned; err also says what it has done to its transaction.
func (p *Processor[Tx]) run(ctx context.Context, tx Tx, w work[Tx]) (own, err error) {
	given, check := guard(p.store, tx)
	own = errExited
	ctx, end := p.follow(ctx, w)
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer contain("the handler", &own)
		own = w.run(ctx, given)
	}()
	<-over
	end(own)
	if ctx.Err() != nil {
		return own, own // database/sql itself ends a transaction with its context
	}
	return own, errors.Join(own, check())
}

// stillWithin looks whether handlers that share a transaction are still in the one that has their claims. One look for all of them: it is a round trip. When they are
// not, all of them have done their work all the same, and it is committed.
func (p *Processor[Tx]) stillWithin(ctx context.Context, tx Tx, t *turn[Tx]) error {
	if len(t.fresh) < 2 || t.by == "" {
		return nil
	}
	now, err := p.store.Query(ctx, tx, currentSQL)
	if err != nil {
		return err
	}
	if len(now) != 1 || now[0] != t.by {
		p.cfg.Logger.Error("a handler has ended the transaction that it shares with others: a crash in between would have lost events. Leave COMMIT and ROLLBACK to the consumer",
			"consumer", p.consumer, "first", t.fresh[0].record.Place().String(), "last", t.at.record.Place().String())
	}
	return nil
}

// takeBack forgets the claims of a transaction that has failed and was committed all the same, by a handler. Without it their events would be taken for repeats. It
// returns the error, which says so then.
//
// Of a handler that has committed with the means of its driver it is known when. Those in front of it are handled, and so is its own event unless it has failed. With
// a COMMIT that was a statement nobody knows which of them are: all are handled again.
func (p *Processor[Tx]) takeBack(ctx context.Context, t *turn[Tx], cause error) error {
	doubtful := t.fresh
	if errors.Is(t.cause, errEnded) {
		doubtful = t.left
		if t.own != nil {
			doubtful = append([]work[Tx]{t.at}, t.left...)
		}
	}
	ids, _ := p.claim(doubtful)
	if len(ids) == 0 || t.by == "" {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(proof, p.cfg.Timeout))
	defer cancel()
	var back []string
	err := inTx(ctx, p.store, statement{takeBackSQL, []any{p.consumer, array(ids), t.by}}, func(_ Tx, found []string) error {
		back = found
		return nil
	})
	switch {
	case err != nil:
		p.cfg.Logger.Error("events that are not handled are remembered if a handler has committed its transaction, and nobody could look",
			"consumer", p.consumer, "event_ids", ids, "record", t.at.record.Place().String(), "error", err)
	case len(back) > 0 && len(t.fresh) > 1:
		p.cfg.Logger.Error("a handler has ended the transaction that it shares with others: events are handled again",
			"consumer", p.consumer, "event_ids", back, "record", t.at.record.Place().String(), "error", cause)
	}
	if len(back) > 0 && !errors.Is(cause, errEnded) {
		return errors.Join(cause, errEnded)
	}
	return cause
}
