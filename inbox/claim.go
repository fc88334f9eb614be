package inbox

import (
	"context"
	"errors"
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

// run calls a handler.
func (p *Processor[Tx]) run(ctx context.Context, tx Tx, w work[Tx]) (err error) {
	given, check := guard(p.store, tx)
	defer func() {
		if ctx.Err() != nil {
			return // database/sql itself ends a transaction with its context
		}
		if ended := check(); ended != nil {
			err = errors.Join(err, ended)
		}
	}()
	defer contain("the handler", &err)
	return w.run(ctx, given)
}

// unclaim forgets what a handler in front of it has committed the claims of. Without it they would be taken for repeats.
func (p *Processor[Tx]) unclaim(ctx context.Context, unhandled []work[Tx]) {
	for _, w := range unhandled {
		if w.id == "" {
			continue
		}
		if err := inTx(ctx, p.store, statement{unclaimSQL, []any{p.consumer, w.id}}, func(Tx, []string) error { return nil }); err != nil {
			p.cfg.Logger.Error("an event is remembered and may not be handled: a handler has committed the transaction that it shares with others",
				"consumer", p.consumer, "event", w.id, "record", w.record.Place().String(), "error", err)
		}
	}
}
