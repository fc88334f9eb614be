package retention

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
)

const (
	// prunePage is how many rows one statement deletes at most, and how many ids it ranges over at first.
	prunePage = 5_000
	// pruneTook is what a page should take at most: what comes after it is shorter then.
	pruneTook = 500 * time.Millisecond
	// pruneStuck is how many single ids in a row may refuse before the walk is given up.
	pruneStuck = 50
	// pruneBehind is how many ranges are looked at again in the end.
	pruneBehind = 1_000
)

// pruneSettings go ahead of the statements of a page, for its transaction only. A limit that somebody has set for statements stays.
const pruneSettings = `SELECT set_config('statement_timeout', CASE current_setting('statement_timeout') WHEN '0' THEN '10s' ELSE current_setting('statement_timeout') END, true),
    set_config('lock_timeout', '1s', true), set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)`

// pruneWalk goes over a table by ranges of ids, so that no statement touches more of the index than its range, whatever it finds there: rows, the remains
// of deleted ones that vacuum has not reached, or nothing. What takes too long or is refused is tried again in smaller ranges, down to a single id, which is then passed.
type pruneWalk struct {
	db     pg.Runner
	target pruneTarget
	// keeping looks only.
	keeping bool
	// after is the last id that was passed, top the last one to look at; span is how many ids the next page ranges over.
	after, top, span int64
	// refused counts single ids in a row that could not be deleted.
	refused int

	// behind are ranges where something was left.
	behind []pruneRange

	now func() time.Time
}

// pruneRange are the ids behind after up to last, of which some were left.
type pruneRange struct{ after, last, skipped int64 }

// prunePageResult is what became of a page.
type prunePageResult struct {
	rows, doomed, young, deleted int64
	// skipped were doomed and are still there: somebody has them locked, or keeps them from going. Another prune may delete them later.
	skipped int64
	// oldest is the age of the oldest that was doomed, of a page that has any.
	oldest time.Duration
	took   time.Duration
}

// begin puts the walk in front of the lowest id. Where that takes too long to find, below is the place to begin at.
func (w *pruneWalk) begin(ctx context.Context, below int64) error {
	w.span, w.refused = prunePage, 0
	low, high, err := w.ends(ctx)
	switch {
	case err == nil && high == nil:
		w.after, w.top = 0, 0
	case err == nil:
		w.after, w.top = *low-1, *high
	case yields(ctx, err):
		w.after, w.top = below, math.MaxInt64
	default:
		return fmt.Errorf("look for the first of %s: %w", w.target.what, err)
	}
	return nil
}

// extend looks for rows that were written since the walk began.
func (w *pruneWalk) extend(ctx context.Context) error {
	_, high, err := w.ends(ctx)
	if err == nil && high != nil {
		w.top = max(w.top, *high)
	}
	if err != nil && !yields(ctx, err) {
		return fmt.Errorf("look for the last of %s: %w", w.target.what, err)
	}
	return nil
}

func (w *pruneWalk) ends(ctx context.Context) (low, high *int64, err error) {
	err = w.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		sql, args := w.target.endsSQL()
		return tx.QueryRow(ctx, sql, args...).Scan(&low, &high)
	})
	return low, high, err
}

// done tells that nothing is left in front of the walk.
func (w *pruneWalk) done() bool { return w.after >= w.top }

// page takes the next range, as large a one as works.
func (w *pruneWalk) page(ctx context.Context) (prunePageResult, error) {
	for {
		began := w.now()
		last := w.last()
		r, reached, err := w.take(ctx, last)
		r.took = w.now().Sub(began)
		if err == nil {
			w.adapt(r, last, reached)
			return r, nil
		}
		switch {
		case !yields(ctx, err):
			return r, fmt.Errorf("prune %s from id %d on: %w", w.target.what, w.after+1, err)
		case last == w.after+1:
			return w.pass(err)
		}
		w.shrink()
	}
}

// last is the last id of the next range.
func (w *pruneWalk) last() int64 {
	if w.top-w.after <= w.span || w.after+w.span < w.after {
		return w.top
	}
	return w.after + w.span
}

// take deletes in one transaction, and returns how far it came.
func (w *pruneWalk) take(ctx context.Context, last int64) (r prunePageResult, reached int64, err error) {
	err = w.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		sql, args := w.target.lookSQL(w.after, last, prunePage)
		var oldest int64
		if err := tx.QueryRow(ctx, sql, args...).Scan(&r.rows, &reached, &r.doomed, &r.young, &oldest); err != nil {
			return err
		}
		r.oldest = pg.Microseconds(oldest)
		if r.rows < prunePage {
			reached = last
		}
		if w.keeping || r.doomed == 0 {
			return nil
		}
		sql, args = w.target.deleteSQL(w.after, reached)
		tag, err := tx.Exec(ctx, sql, args...)
		if r.deleted = tag.RowsAffected(); err != nil || r.deleted >= r.doomed {
			return err
		}
		r.skipped, err = w.left(ctx, tx, w.after, reached)
		return err
	})
	if err != nil {
		return prunePageResult{}, 0, err
	}
	if r.skipped > 0 {
		w.remember(pruneRange{w.after, reached, r.skipped})
	}
	return r, reached, nil
}

// left counts what is doomed and still there in a range of which a page has been deleted.
func (w *pruneWalk) left(ctx context.Context, tx pgx.Tx, after, last int64) (n int64, err error) {
	var rows, end, young, oldest int64
	sql, args := w.target.lookSQL(after, last, prunePage)
	err = tx.QueryRow(ctx, sql, args...).Scan(&rows, &end, &n, &young, &oldest)
	return n, err
}

// remember keeps the ranges where something was left; past some hundreds they are not kept, and what was left there stays counted.
func (w *pruneWalk) remember(r pruneRange) {
	if len(w.behind) < pruneBehind {
		w.behind = append(w.behind, r)
	}
}

// gone looks again at the ranges where something was left, and tells how much of it is not there any more: another prune had it locked, and has deleted it.
func (w *pruneWalk) gone(ctx context.Context) (n int64) {
	for _, r := range w.behind {
		err := w.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			still, err := w.left(ctx, tx, r.after, r.last)
			n += max(0, r.skipped-still)
			return err
		})
		if err != nil {
			// It is a count for people: what cannot be looked at stays counted.
			break
		}
	}
	w.behind = nil
	return n
}

// adapt moves on, and makes the next range longer where there is little in it, shorter where it takes long.
func (w *pruneWalk) adapt(r prunePageResult, last, reached int64) {
	w.refused = 0
	switch {
	case r.took > pruneTook:
		w.shrink()
	case reached < last:
		w.span = max(1, reached-w.after)
	case r.rows <= prunePage/2:
		w.span = min(2*w.span, math.MaxInt64/4)
	}
	w.after = reached
}

// shrink comes down at once from a range that was long for want of rows.
func (w *pruneWalk) shrink() {
	if w.span > prunePage {
		w.span = prunePage
		return
	}
	w.span = max(1, w.span/2)
}

// pass leaves one id behind that could not be deleted.
func (w *pruneWalk) pass(err error) (prunePageResult, error) {
	w.after++
	w.remember(pruneRange{w.after - 1, w.after, 1})
	if w.refused++; w.refused >= pruneStuck {
		w.refused = 0
		return prunePageResult{skipped: 1}, fmt.Errorf("prune %s: %d single ids in a row up to id %d were refused, the last because: %w", w.target.what, pruneStuck, w.after, err)
	}
	return prunePageResult{skipped: 1}, nil
}

func (w *pruneWalk) inTx(ctx context.Context, fn func(context.Context, pgx.Tx) error) error {
	return pg.InTx(ctx, w.db, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, pruneSettings); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

// yields tells that a smaller range may succeed where this one failed: it took too long, it waited for a lock, or one of its rows is
// refused, by a foreign key or by a trigger.
func yields(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	switch c := pg.Code(err); {
	case c == "57014", c == "55P03", pg.IsConflict(err):
		return true
	case c == "":
		return errors.Is(err, context.DeadlineExceeded)
	default:
		return strings.HasPrefix(c, "23") || strings.HasPrefix(c, "P0")
	}
}
