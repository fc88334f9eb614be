package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// Config says what a [Retention] deletes, and how fast. The zero value deletes nothing.
type Config struct {
	// Table is the outbox table, named as in the relay's configuration. Default: public.outbox_event.
	Table string
	// Deleted tells that the relays delete events when they settle them, and so leave nothing behind that could grow without end.
	Deleted bool
	// Logger receives what no method returns. Default: slog.Default().
	Logger *slog.Logger
	// Rules say what may go. Partitions are neither created nor dropped here: that needs the table's owner. One that was lost is attached again where the role may.
	Rules operate.Prune
	// Name is who it is, for people.
	Name string
	// Interval is how long it rests when nothing is left to delete. Default 10 s.
	Interval time.Duration
	// Budget bounds one run; a second passes before the next one when something is left. Default 10 s.
	Budget time.Duration
	// Restart is how often the walk begins again at the lowest id, because rows settle in another order than that of their ids. Default 1 h.
	Restart time.Duration
	// Rest is how long it pauses after each page, as a part of the time that the page took: with 1, the default, it keeps the database busy half of the time at most.
	Rest float64
}

const (
	// retainCatchUp is the pause between two runs while there is something left.
	retainCatchUp = time.Second
	// retainLook is how often the size of the table is looked at.
	retainLook = time.Minute
)

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Interval = cmp.Or(c.Interval, 10*time.Second)
	c.Budget = cmp.Or(c.Budget, 10*time.Second)
	c.Restart = cmp.Or(c.Restart, time.Hour)
	c.Rest = cmp.Or(c.Rest, 1)
	return c
}

func (c Config) validate() error {
	var problems []error
	if c.Interval < 0 || c.Budget < 0 || c.Restart < 0 || c.Rest < 0 {
		problems = append(problems, errors.New("interval, budget, restart and rest of a retention: want none that is negative"))
	}
	if c.Rules.Partitions != nil {
		problems = append(problems, errors.New("a retention does not touch partitions: run outbox prune --partitions as the table's owner"))
	}
	if c.deletes() {
		problems = append(problems, c.Rules.Check())
	}
	return errors.Join(problems...)
}

func (c Config) deletes() bool {
	return c.Rules.Events != nil || c.Rules.Dead != nil || c.Rules.Audit != nil
}

// Stats is what a [Retention] has done and knows.
type Stats struct {
	// Active tells that this one deletes; another relay of the source may be the one.
	Active bool
	// Pruned is what it has deleted since it was made.
	Pruned operate.Pruned
	// CaughtUp tells that the last run left nothing that may be deleted. Overdue is how long the oldest row that its last page met has been due for, zero when caught up.
	CaughtUp bool
	Overdue  time.Duration
	// Holding is what the table holds, at most a minute old; its zero value when nobody could look.
	Holding Holding
	// LastError is why nothing is deleted; nil when it works.
	LastError error
}

// Retention deletes what is old while a relay publishes, in the background and under constant load, for one relay of a source at a time. It also looks at
// the size of the table, and warns when nothing is ever deleted there.
//
// It runs beside the engine, over the pool, and the engine knows nothing of it: what is settled is of no use to it any more.
type Retention struct {
	cfg    Config
	log    *slog.Logger
	pruner *Pruner
	me     retainer

	// What follows, down to saidLost, belongs to the goroutine of Run: the walk, when it last began, and what was said last.
	walk     *pruneWalk
	walkedAt time.Time
	// countAt is when the newest events that are kept may be counted again.
	countAt  time.Time
	stateAt  time.Time
	lookedAt time.Time
	said     string
	// saidLost are the detached partitions that were spoken of last.
	saidLost string

	ahead func() time.Duration
	now   func() time.Time
	pause func(context.Context, time.Duration)

	mu    sync.Mutex
	stats Stats
}

// New returns the retention of a table. It connects to nothing yet.
func New(pool *pgxpool.Pool, cfg Config) (*Retention, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure the retention: %w", err)
	}
	pruner, err := NewPruner(pool, cfg.Table)
	if err != nil {
		return nil, err
	}
	pruner.Logger = cfg.Logger
	return &Retention{
		cfg: cfg, log: cfg.Logger, pruner: pruner, me: retainer{uuid.New(), cfg.Name},
		now: time.Now, pause: sleep, ahead: func() time.Duration { return 0 },
	}, nil
}

// Stats may be called from any goroutine, at any time.
func (r *Retention) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// OldestSettledAge is [Pruner.OldestSettledAge].
func (r *Retention) OldestSettledAge(ctx context.Context) (time.Duration, error) {
	return r.pruner.OldestSettledAge(ctx)
}

func (r *Retention) note(change func(*Stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.stats)
}

// Run works until ctx ends. Whatever goes wrong is said in the log, once, and tried again: a relay that cannot delete publishes all the same.
func (r *Retention) Run(ctx context.Context) {
	defer r.leave(ctx)
	for ctx.Err() == nil {
		caughtUp, err := r.turn(ctx)
		if ctx.Err() != nil {
			return
		}
		r.outcome(err)
		wait := r.cfg.Interval
		if err == nil && !caughtUp {
			wait = min(retainCatchUp, wait)
		}
		r.pause(ctx, wait)
	}
}

// turn does what is due: it looks at the table, and deletes for a while if it is the one to do that. caughtUp tells that nothing is left.
func (r *Retention) turn(ctx context.Context) (caughtUp bool, err error) {
	row, err := r.pruner.db.Source(ctx)
	if err != nil {
		return true, err
	}
	if err := r.look(ctx, row); err != nil {
		return true, err
	}
	if !r.cfg.deletes() {
		return true, nil
	}
	if err := checkPruneRights(ctx, r.pruner.db.Pool, row, r.cfg.Rules); err != nil {
		return true, err
	}
	other, err := r.me.claim(ctx, r.pruner.db.Pool, row, r.cfg.Rules)
	if err != nil {
		return true, fmt.Errorf("become the one that deletes: %w", pruneTrouble(r.pruner.db.Pool, err, row))
	}
	r.role(other)
	if other != "" {
		r.walk = nil
		return true, nil
	}
	return r.run(ctx, row)
}

// run deletes for the time of the budget.
func (r *Retention) run(ctx context.Context, row pg.Source) (caughtUp bool, err error) {
	p := newPruning(r.pruner.db, row)
	p.rest, p.ahead, p.now, p.pause = r.cfg.Rest, r.ahead, r.now, r.pause
	before := r.Stats().Pruned
	p.total = before
	p.report = func(total operate.Pruned) { r.note(func(s *Stats) { s.Pruned = total }) }
	caughtUp = true
	if e := r.cfg.Rules.Events; e != nil {
		caughtUp, err = r.events(ctx, p, *e)
	}
	if err == nil && r.now().Sub(r.stateAt) >= r.cfg.Restart {
		// These tables are small beside that of the events: they are walked through at once.
		if err = p.state(ctx, r.cfg.Rules); err == nil {
			r.stateAt = r.now()
		}
	}
	r.note(func(s *Stats) {
		s.Pruned = p.total
		s.CaughtUp = caughtUp && err == nil
		if s.CaughtUp {
			s.Overdue = 0
		}
	})
	if deleted := p.total.Events - before.Events; deleted > 0 {
		noting, cancel := context.WithTimeout(context.WithoutCancel(ctx), pg.PingTimeout)
		defer cancel()
		err = errors.Join(err, noteRetention(noting, r.pruner.db.Pool, row, deleted))
	}
	return caughtUp, err
}

// events goes on with the walk. It ends at rows that are too young, to go on there next time; at the end of the table; or with the budget.
func (r *Retention) events(ctx context.Context, p *pruning, e operate.PruneEvents) (caughtUp bool, err error) {
	began := r.now()
	w, err := r.place(ctx, p, e)
	if err != nil {
		return false, err
	}
	defer func() { p.total.Skipped -= w.gone(ctx) }()
	for !w.done() {
		if ctx.Err() != nil || r.now().Sub(began) >= r.cfg.Budget {
			return false, ctx.Err()
		}
		from := w.after
		page, err := w.page(ctx)
		p.total.Events += page.deleted
		p.total.Skipped += page.skipped
		p.report(p.total)
		if err != nil {
			return false, err
		}
		if page.rows > 0 && page.young == page.rows && page.doomed == 0 {
			w.after, w.span = from, min(w.span, prunePage)
			return true, nil
		}
		if page.doomed > 0 && e.OlderThan > 0 {
			r.note(func(s *Stats) { s.Overdue = max(0, page.oldest-p.aged(e.OlderThan)()) })
		}
		if page.rows > 0 {
			p.pause(ctx, time.Duration(float64(page.took)*p.rest))
		}
	}
	return true, nil
}

// place returns the walk where it stands; at the lowest id when it is time for that.
func (r *Retention) place(ctx context.Context, p *pruning, e operate.PruneEvents) (*pruneWalk, error) {
	if r.walk != nil && r.now().Sub(r.walkedAt) < r.cfg.Restart {
		r.walk.db, r.walk.target = p.db, eventTarget(p.row.Table, p.aged(e.OlderThan))
		if !r.walk.done() {
			return r.walk, nil
		}
		if e.Keep > 0 && r.now().Before(r.countAt) {
			return r.walk, nil
		}
		if err := r.walk.extend(ctx); err != nil {
			return nil, err
		}
		return r.walk, r.keepNewest(ctx, r.walk, e.Keep)
	}
	w := p.walk(eventTarget(p.row.Table, p.aged(e.OlderThan)))
	if err := w.begin(ctx, 0); err != nil {
		return nil, err
	}
	if err := r.keepNewest(ctx, w, e.Keep); err != nil {
		return nil, err
	}
	r.walk, r.walkedAt = w, r.now()
	return w, nil
}

// keepNewest counts, and not again before many times as long has passed as that took.
func (r *Retention) keepNewest(ctx context.Context, w *pruneWalk, keep int64) error {
	began := r.now()
	err := w.keepNewest(ctx, keep)
	r.countAt = r.now().Add(20 * r.now().Sub(began))
	return err
}

// leave ends the claim, so that the next relay goes on at once.
func (r *Retention) leave(ctx context.Context) {
	if !r.Stats().Active {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pg.PingTimeout)
	defer cancel()
	row, err := r.pruner.db.Source(ctx)
	if err == nil {
		// The claim ends by itself.
		_ = r.me.leave(ctx, r.pruner.db.Pool, row)
	}
}
