package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/competing"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// Competing is one outbox table as relays work on it that compete for rows by their locks: it implements [competing.Source] by statements.
//
// It works over connections of its own, made with the pool's configuration: one for the transaction that holds the locks, one for the
// registration, and one for watching.
type Competing struct {
	// base gives the configuration, the way to connect, the sessions for the registration and the watch, and the backlog.
	base *Source
	// work holds a transaction open for as long as a pass takes.
	work *session
	// every is how often the transaction is looked at while it waits for Kafka.
	every time.Duration
}

var (
	_ competing.Source = (*Competing)(nil)
	_ relay.Watcher    = (*Competing)(nil)
)

// passLimit bounds a pass as a whole; each of its statements is bounded by pg.CallTimeout.
const passLimit = 5 * time.Minute

// NewCompeting returns a source for one table. It connects to nothing yet: [Competing.Open] does. The pool gives its configuration only.
// Settle must be Mark, as the relays beside it do.
func NewCompeting(pool *pgxpool.Pool, cfg Config) (*Competing, error) {
	base, err := New(pool, cfg)
	if err == nil && cfg.Settle != Mark {
		err = fmt.Errorf("configure the source: competing relays settle by %s, not by %s: the relays beside them mark rows too", Mark, cfg.Settle)
	}
	if err != nil {
		return nil, err
	}
	work := newSession("batch")
	work.limit = passLimit
	return &Competing{base: base, work: work, every: holdInterval}, nil
}

// Open implements [competing.Source]. What it finds wrong with the table or the rights comes with the statement or command that mends it, and is
// relay.ErrConfiguration, as are refused credentials.
func (c *Competing) Open(ctx context.Context) (relay.SourceInfo, error) {
	if c.base.closed.Load() {
		return relay.SourceInfo{}, fmt.Errorf("%s: it was closed", c.base.table)
	}
	ctx, cancel := context.WithTimeout(ctx, pg.CallTimeout)
	defer cancel()
	found, err := c.inspect(ctx)
	if err != nil {
		return relay.SourceInfo{}, fmt.Errorf("%s: %w", c.base.table, pg.Mark(err))
	}
	c.base.unindexed.Store(!found.indexed)
	c.base.open.Store(&opened{row: found.row, settler: newSettler(c.work, found.row, Mark)})
	if c.base.closed.Load() {
		// Close came while connections were made: nobody else would end those.
		c.Close()
		return relay.SourceInfo{}, fmt.Errorf("%s: it was closed", c.base.table)
	}
	return relay.SourceInfo{
		Name:           c.base.table.String(),
		ID:             found.row.ID,
		Lanes:          found.row.Lanes,
		FirstPublished: found.row.FirstPublished,
		Warnings:       found.warnings,
	}, nil
}

func (c *Competing) inspect(ctx context.Context) (found probe, err error) {
	for _, s := range []*session{c.work, c.base.lease} {
		if err := s.repair(ctx, c.base.connect); err != nil {
			return probe{}, err
		}
	}
	err = c.base.lease.Run(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		found, err = inspect(ctx, conn, c.base.table, Mark, relay.ScopeKey)
		return err
	})
	if err == nil {
		err = c.warnOfParked(ctx, &found)
	}
	return found, err
}

// warnOfParked says what this relay leaves out: nothing fails that anybody would look into.
func (c *Competing) warnOfParked(ctx context.Context, found *probe) error {
	var n int
	err := c.base.lease.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM outbox.parked_key WHERE source = $1`, found.row.ID).Scan(&n)
	})
	if err != nil {
		return fmt.Errorf("count the parked keys: %w", err)
	}
	if n > 0 {
		found.warnings = append(found.warnings, fmt.Sprintf("Keys were parked in mode leased and wait for an operator, and this relay leaves their events out: %d; "+
			"see outbox keys list, and let them go on with outbox keys unpark or outbox keys skip.", n))
	}
	return nil
}

// Close implements [competing.Source]. Calls that are under way end first, each within its time limit.
func (c *Competing) Close() {
	c.base.Close()
	c.work.close()
}

// Register implements [competing.Registrar].
func (c *Competing) Register(ctx context.Context, owner relay.Owner, ttl time.Duration) error {
	return c.registrations("register", func(r *competitors) error { return r.Register(ctx, owner, ttl) })
}

// Renew implements [competing.Registrar].
func (c *Competing) Renew(ctx context.Context, owner relay.Owner, ttl time.Duration) error {
	return c.registrations("renew", func(r *competitors) error { return r.Renew(ctx, owner, ttl) })
}

// Report implements [competing.Registrar].
func (c *Competing) Report(ctx context.Context, owner relay.Owner, silent time.Duration) error {
	return c.registrations("report", func(r *competitors) error { return r.Report(ctx, owner, silent) })
}

// Withdraw implements [competing.Registrar].
func (c *Competing) Withdraw(ctx context.Context, owner relay.Owner) error {
	return c.registrations("withdraw", func(r *competitors) error { return r.Withdraw(ctx, owner) })
}

func (c *Competing) registrations(verb string, do func(*competitors) error) error {
	o, err := c.base.now(verb)
	if err != nil {
		return err
	}
	return do(&competitors{db: c.base.lease, row: o.row})
}

// HoldTopics implements [competing.Source]. It uses the connection of the passes, which is free between them.
func (c *Competing) HoldTopics(ctx context.Context, owner relay.Owner, change relay.HeldChange) error {
	o, err := c.base.now("write down held topics")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pg.CallTimeout)
	defer cancel()
	f := newFailures(c.work, o.row)
	return f.HoldTopics(ctx, owner, change)
}

// Backlog returns what waits, as [Source.Backlog] does.
func (c *Competing) Backlog(ctx context.Context) (Backlog, error) { return c.base.Backlog(ctx) }

// Watch implements [relay.Watcher]: it logs when the index for what is unpublished goes, and when it is back.
func (c *Competing) Watch(ctx context.Context) error { return c.base.Watch(ctx) }

// Pass implements [competing.Source].
func (c *Competing) Pass(
	ctx context.Context, ask competing.Ask, publish func(context.Context, []*relay.Event) []relay.Ref,
) (competing.Result, error) {
	o, err := c.base.now("take events of")
	if err != nil {
		return competing.Result{}, err
	}
	p := &pass{row: o.row, settler: o.settler, ask: ask, publish: publish, every: c.every}
	err = c.work.Run(ctx, p.run)
	if errors.Is(err, errOtherColumns) {
		p.row.Headers = !p.row.Headers
		// Closed meanwhile, it stays closed.
		c.base.open.CompareAndSwap(o, &opened{row: p.row, settler: o.settler})
		err = c.work.Run(ctx, p.run)
	}
	if unprintable(err) && !p.published {
		p.bare = true
		err = c.work.Run(ctx, p.run)
	}
	if err == nil {
		err = p.settleRest(ctx)
	}
	var partly *relay.UnsettledError
	if err != nil && !errors.As(err, &partly) {
		return competing.Result{}, fmt.Errorf("take events of %s: %w", c.base.table, err)
	}
	return p.result, err
}
