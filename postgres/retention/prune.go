package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// pruneRest is how long a command that prunes pauses after each page, as a part of the time that the page took.
const pruneRest = 0.25

// pruning is one request to prune, under way.
type pruning struct {
	db  pg.Runner
	row pg.Source
	// rest follows each page, as a part of the time that it took.
	rest float64
	// ahead is added to the database's clock; only tests set it.
	ahead func() time.Duration
	now   func() time.Time
	pause func(context.Context, time.Duration)
	// report is called after each page.
	report func(operate.Pruned)

	total operate.Pruned
}

func newPruning(db pg.Runner, row pg.Source) *pruning {
	return &pruning{
		db: db, row: row, rest: pruneRest, now: time.Now, pause: sleep,
		ahead:  func() time.Duration { return 0 },
		report: func(operate.Pruned) {},
	}
}

// sleep pauses, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Pruner deletes what is old when it is told to, and tells what a table holds. It is [operate.Pruner] over a pool, and holds nothing open between calls.
type Pruner struct {
	db pg.Access
	// Logger is told whom a call waits for. It may be set before the first one.
	Logger *slog.Logger
}

// NewPruner returns the pruner of a table, named as in the relay's configuration. It connects to nothing yet.
func NewPruner(pool *pgxpool.Pool, table string) (*Pruner, error) {
	db, err := pg.NewAccess(pool, table)
	if err != nil {
		return nil, err
	}
	return &Pruner{db, slog.Default()}, nil
}

// Prune implements [operate.Pruner].
func (o *Pruner) Prune(ctx context.Context, request operate.Prune, progress func(operate.Pruned)) (operate.Pruned, error) {
	row, err := o.pruneSource(ctx, request)
	if err != nil {
		return operate.Pruned{}, err
	}
	p := newPruning(o.db, row)
	if progress != nil {
		p.report = progress
	}
	if err := noteRetention(ctx, o.db.Pool, row, 0); err != nil {
		return operate.Pruned{}, err
	}
	if request.Partitions != nil {
		err = o.partitions(ctx, row, *request.Partitions, p)
	}
	if err == nil {
		err = p.run(ctx, request)
	}
	if p.total.Events > 0 {
		// It is a figure for people; what was deleted is deleted.
		_ = noteRetention(context.WithoutCancel(ctx), o.db.Pool, row, p.total.Events)
	}
	if err = errors.Join(err, p.total.Err()); err != nil {
		return p.total, fmt.Errorf("prune %s: %w", o.db.Table, err)
	}
	return p.total, nil
}

// pruneSource looks at the request, the source and the rights.
func (o *Pruner) pruneSource(ctx context.Context, request operate.Prune) (pg.Source, error) {
	if err := request.Check(); err != nil {
		return pg.Source{}, err
	}
	row, err := o.db.Source(ctx)
	if err != nil {
		return pg.Source{}, err
	}
	return row, checkPruneRights(ctx, o.db.Pool, row, request)
}

// run walks over all tables of the request.
func (p *pruning) run(ctx context.Context, request operate.Prune) error {
	if request.Events != nil {
		if err := p.events(ctx, *request.Events); err != nil {
			return err
		}
	}
	return p.state(ctx, request)
}

func (p *pruning) events(ctx context.Context, e operate.PruneEvents) error {
	w := p.walk(eventTarget(p.row.Table, p.aged(e.OlderThan)))
	if err := w.begin(ctx, 0); err != nil {
		return err
	}
	if err := w.keepNewest(ctx, e.Keep); err != nil {
		return err
	}
	return p.over(ctx, w, &p.total.Events)
}

// keepNewest ends the walk in front of the newest events, as many as are to be kept.
func (w *pruneWalk) keepNewest(ctx context.Context, keep int64) error {
	if keep == 0 {
		return nil
	}
	below, err := w.keepBelow(ctx, keep)
	if err == nil && below <= w.top {
		w.top = max(below, w.after+1) - 1
	}
	return err
}

// state walks over the tables of schema outbox.
func (p *pruning) state(ctx context.Context, request operate.Prune) error {
	for _, t := range p.stateTargets(request) {
		w := p.walk(t.target)
		err := w.begin(ctx, 0)
		if err == nil {
			err = p.over(ctx, w, t.count)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// countedTarget is a table with the count of what was deleted there.
type countedTarget struct {
	target pruneTarget
	count  *int64
}

func (p *pruning) stateTargets(request operate.Prune) (all []countedTarget) {
	if request.Dead != nil {
		all = append(all, countedTarget{deadTarget(p.row.ID, p.aged(*request.Dead)), &p.total.Dead})
	}
	if request.Audit != nil {
		age := p.aged(*request.Audit)
		all = append(all, countedTarget{auditTarget(p.row.ID, age), &p.total.Audit},
			countedTarget{requestTarget(p.row.ID, age), &p.total.Requests}, countedTarget{jobTarget(p.row.ID, age), &p.total.Jobs})
	}
	return all
}

// aged is an age by the clock of the test, when there is one.
func (p *pruning) aged(d time.Duration) func() time.Duration {
	if d == 0 {
		return func() time.Duration { return 0 }
	}
	return func() time.Duration { return d - p.ahead() }
}

func (p *pruning) walk(t pruneTarget) *pruneWalk {
	return &pruneWalk{db: p.db, target: t, now: p.now}
}

// over walks to the end, page after page, and adds up.
func (p *pruning) over(ctx context.Context, w *pruneWalk, count *int64) error {
	for !w.done() {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := w.page(ctx)
		*count += r.deleted
		p.total.Skipped += r.skipped
		p.report(p.total)
		if err != nil {
			return err
		}
		if r.deleted > 0 {
			p.pause(ctx, time.Duration(float64(r.took)*p.rest))
		}
	}
	p.total.Skipped -= w.gone(ctx)
	p.report(p.total)
	return nil
}

// checkPruneRights refuses what the role may not do, with the command that prints the grants.
func checkPruneRights(ctx context.Context, pool *pgxpool.Pool, row pg.Source, request operate.Prune) error {
	var tables []string
	if request.Events != nil {
		tables = append(tables, row.Table.SQL())
	}
	if request.Dead != nil {
		tables = append(tables, "outbox.dead_event")
	}
	if request.Audit != nil {
		tables = append(tables, "outbox.audit", "outbox.request", "outbox.job")
	}
	var missing []string
	var role string
	err := pool.QueryRow(ctx, `
SELECT current_user::text, array(SELECT t FROM unnest($1::text[]) t WHERE NOT (has_table_privilege(t::regclass, 'DELETE') AND has_table_privilege(t::regclass, 'SELECT'))
    UNION ALL SELECT 'outbox.retention' WHERE NOT has_table_privilege('outbox.retention'::regclass, 'INSERT'))`, tables).Scan(&role, &missing)
	if err != nil {
		return fmt.Errorf("look at the rights to prune %s: %w", row.Table, pruneTrouble(pool, err, row))
	}
	if len(missing) > 0 {
		return lacksRights(row, role, missing)
	}
	return nil
}
