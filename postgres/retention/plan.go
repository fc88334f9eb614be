package retention

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/operate"
)

// planBudget is how long counting events may take; the rest is estimated.
const planBudget = 3 * time.Second

// PlanPrune implements [operate.Pruner].
func (o *Pruner) PlanPrune(ctx context.Context, request operate.Prune) (operate.PrunePlan, error) {
	var plan operate.PrunePlan
	row, err := o.pruneSource(ctx, request)
	if err != nil {
		return plan, err
	}
	p := newPruning(o.db, row)
	if request.Partitions != nil {
		err = o.planPartitions(ctx, row, *request.Partitions, p, &plan)
	}
	if err == nil && request.Events != nil {
		plan.Events, plan.EventsEstimated, err = p.countEvents(ctx, *request.Events, planBudget)
	}
	if err == nil {
		err = p.countState(ctx, request)
		plan.Dead, plan.Audit, plan.Requests, plan.Jobs = p.total.Dead, p.total.Audit, p.total.Requests, p.total.Jobs
	}
	if err != nil {
		return plan, fmt.Errorf("count what may be pruned in %s: %w", o.db.Table, err)
	}
	return plan, nil
}

// countState counts all: these tables are small beside that of the events.
func (p *pruning) countState(ctx context.Context, request operate.Prune) error {
	for _, t := range p.stateTargets(request) {
		w := p.walk(t.target)
		w.keeping = true
		if err := w.begin(ctx, 0); err != nil {
			return err
		}
		for !w.done() {
			r, err := w.page(ctx)
			if err != nil {
				return err
			}
			*t.count += r.doomed
		}
	}
	return nil
}

// countEvents counts for as long as the budget lasts. What is left then is taken to be as dense as what was counted, up to where rows are too young.
func (p *pruning) countEvents(ctx context.Context, e operate.PruneEvents, budget time.Duration) (n int64, estimated bool, err error) {
	w := p.walk(eventTarget(p.row.Table, p.aged(e.OlderThan)))
	w.keeping = true
	if err := w.begin(ctx, 0); err != nil {
		return 0, false, err
	}
	if err := w.keepNewest(ctx, e.Keep); err != nil {
		return 0, false, err
	}
	began, first := p.now(), w.after
	for !w.done() {
		if err := ctx.Err(); err != nil {
			return n, estimated, err
		}
		if p.now().Sub(began) >= budget {
			more, err := p.extrapolate(ctx, w, first, n)
			return n + more, true, err
		}
		r, err := w.page(ctx)
		if err != nil {
			return n, false, err
		}
		n += r.doomed
	}
	return n, false, nil
}

func (p *pruning) extrapolate(ctx context.Context, w *pruneWalk, first, counted int64) (int64, error) {
	end, err := w.youngFrom(ctx)
	if err != nil || w.after <= first || end <= w.after {
		return 0, err
	}
	density := float64(counted) / (float64(w.after) - float64(first))
	return int64(math.Round(density * (float64(end) - float64(w.after)))), nil
}

// youngFrom is about the first id from which on rows are too young, found by halving: ids and created_at rise together.
func (w *pruneWalk) youngFrom(ctx context.Context) (int64, error) {
	low, high := w.after, w.top
	for low < high {
		middle := low + (high-low)/2
		young, err := w.youngAt(ctx, middle)
		if err != nil {
			return 0, fmt.Errorf("look where %s become too young: %w", w.target.what, err)
		}
		if young {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return high, nil
}

// youngAt tells it of the first row behind the id.
func (w *pruneWalk) youngAt(ctx context.Context, id int64) (young bool, err error) {
	err = w.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		p := &parameters{}
		sql := `SELECT coalesce((SELECT ` + w.target.young(p) + ` FROM ` + w.target.table + ` t WHERE ` + w.target.within(p, id, w.top) + ` ORDER BY t.id LIMIT 1), true)`
		return tx.QueryRow(ctx, sql, *p...).Scan(&young)
	})
	return young, err
}
