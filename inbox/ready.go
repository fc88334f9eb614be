package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// lackingSQL names the rights that the role lacks. A table that is missing is an error of it.
const lackingSQL = `SELECT n.needed || ' on ' || n.kept FROM (VALUES
    ('outbox.inbox', 'SELECT'), ('outbox.inbox', 'INSERT'), ('outbox.inbox', 'UPDATE'), ('outbox.inbox', 'DELETE'),
    ('outbox.inbox_failure', 'SELECT'), ('outbox.inbox_failure', 'INSERT'), ('outbox.inbox_failure', 'UPDATE'), ('outbox.inbox_failure', 'DELETE')
) n(kept, needed)
WHERE NOT CASE n.needed WHEN 'DELETE' THEN has_table_privilege(n.kept, n.needed) ELSE has_any_column_privilege(n.kept, n.needed) END`

// forgetfulSQL tells that commits of this role's sessions are not kept through a crash of the server.
const forgetfulSQL = `SELECT current_user WHERE current_setting('synchronous_commit') = 'off'`

// Check tells what is missing in the database: tables, or rights of the role. The error says what to do; with [ErrUnavailable] in it nothing is known. A Kafka consumer
// asks for it before it takes anything. A synchronous_commit that is off is a warning in the log.
func (p *Processor[Tx]) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	err := inTx(ctx, p.store, statement{query: lackingSQL}, func(tx Tx, lacking []string) error {
		if len(lacking) > 0 {
			return fmt.Errorf("the role lacks %s: %s", strings.Join(lacking, ", "), howToGrant)
		}
		role, err := p.store.Query(ctx, tx, forgetfulSQL)
		if len(role) > 0 {
			p.cfg.Logger.Warn("synchronous_commit is off: a crash of the database server forgets handled events whose offsets are committed, and they do not come again; use ALTER ROLE ... SET synchronous_commit = on",
				"consumer", p.consumer, "role", role[0])
		}
		return err
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && !errors.Is(err, ErrUnavailable) {
		err = unavailable("ask for tables and rights", err)
	}
	return fmt.Errorf("check the database of consumer %s: %w", p.consumer, explain(err))
}

// howToGrant is the remedy for a role without the rights.
const howToGrant = "outbox migrate grants --role ROLE --consumer prints what a consumer needs"

// Ready asks the handling, if it is able to say, whether its database has what it needs, and waits while that does not answer, or until ctx ends: then it returns nil.
// An error says what is missing, and what to do.
func (r *Runner) Ready(ctx context.Context) error {
	c, able := r.handling.(interface {
		Check(ctx context.Context) error
	})
	for wait := minAway; able && ctx.Err() == nil; wait = min(2*wait, maxAway) {
		err := c.Check(ctx)
		switch {
		case ctx.Err() != nil:
			continue // nobody waits for the answer
		case err == nil || !errors.Is(err, ErrUnavailable):
			return err
		}
		r.cfg.Logger.Warn("the database does not answer: tried again", "error", err, "again_in", wait.String())
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// sized is what a [Store] may be as well: it knows how many connections it opens at most; 0 is without a limit.
type sized interface{ connections() int }

func (s pgxStore) connections() int { return int(s.pool.Config().MaxConns) }

func (s sqlStore) connections() int { return s.db.Stats().MaxOpenConnections }

// Connections is how many connections to the database there are at most, 0 where that is not known or has no limit.
func (p *Processor[Tx]) Connections() int {
	if s, able := p.store.(sized); able {
		return s.connections()
	}
	return 0
}

// compareConnections warns of workers that wait for each other.
func (r *Runner) compareConnections() {
	c, able := r.handling.(interface{ Connections() int })
	if !able {
		return
	}
	if n := c.Connections(); n > 0 && n < r.cfg.Workers {
		r.cfg.Logger.Warn("the pool has fewer connections than there are workers: some of them wait, and their keys with them; give the pool the connections of its other users, and two more than there are workers",
			"connections", n, "workers", r.cfg.Workers)
	}
}
