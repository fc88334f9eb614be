package retention

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// bringBack attaches partitions again that a run of outbox prune has lost, if they hold unpublished events. It drops nothing. It needs the table's owner.
func (o *Pruner) bringBack(ctx context.Context, row pg.Source) (attached []string, err error) {
	p := newPruning(o.db, row)
	err = o.define(ctx, row, operate.PrunePartitions{}, p, func(d *definition, ctx context.Context) error {
		all, err := readDetached(ctx, d.conn, row.Table)
		for _, s := range all {
			if err == nil && s.returns() {
				err = d.end(context.WithoutCancel(ctx), s, fateReturns, "")
			}
		}
		return err
	})
	return p.total.Attached, errors.Join(err, p.total.Err())
}

// lost looks for partitions whose events no relay reads, and attaches them again where it may; else it says once what is the case, and which statement helps. It is no reason to
// delete nothing.
func (r *Retention) lost(ctx context.Context, row pg.Source) error {
	found, err := r.detached(ctx, row)
	if err != nil || len(found) == 0 {
		r.saidLost = ""
		return err
	}
	attached, err := r.pruner.bringBack(ctx, row)
	if len(attached) > 0 {
		r.log.Warn("a partition was detached, and held unpublished events, which no relay reads: it is attached again", "partitions", attached)
		if found, _ = r.detached(ctx, row); len(found) == 0 {
			return nil
		}
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = f.Name
	}
	if said := strings.Join(names, " "); said != r.saidLost {
		r.saidLost = said
		for _, f := range found {
			r.log.Error("a partition is detached, and its unpublished events are not published: attach it again as the table's owner", "partition", f.Name, "what", f.Text, "statement", f.Mend, "error", err)
		}
	}
	return nil
}

// detached are those that may hold unpublished events.
func (r *Retention) detached(ctx context.Context, row pg.Source) (may []Detached, err error) {
	err = pg.InTx(ctx, r.pruner.db, func(ctx context.Context, tx pgx.Tx) error {
		found, err := findDetached(ctx, tx, row)
		for _, f := range found {
			if f.Lost || f.Unknown {
				may = append(may, f)
			}
		}
		return err
	})
	return may, err
}
