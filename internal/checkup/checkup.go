package checkup

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
)

// Symptom is something about a database that weakens a guarantee or slows the relay down, with what mends it.
type Symptom struct {
	// Code is a stable name, such as synchronous-commit-off.
	Code string
	// Grave tells that the relay cannot work, or that events would be lost or stop.
	Grave bool
	// Text says what was found, Why what follows from it.
	Text, Why string
	// Mend is the statement or command that mends it, or says what to do where there is none. It is SQL exactly if SQL is set.
	Mend string
	// SQL tells that Mend can be run as it is, by somebody who may: that breaks nothing on a busy server, and takes nothing away from anybody.
	SQL bool
}

// Check is one look at a database.
type Check struct {
	// Subject is a sentence that is true when nothing was found.
	Subject string
	// AfterMigration tells that it needs the table and the schema outbox.
	AfterMigration bool
	// Look returns what is wrong, and in unseen what the role may not see of it; "" when it sees all. It changes nothing, and ends with ctx.
	Look func(ctx context.Context) (found []Symptom, unseen string, err error)
}

// Config says from where on something is worth a word. The zero value takes the defaults.
type Config struct {
	// OpenWriter is how long a transaction that has written to the table may be open. Default: 2 minutes.
	OpenWriter time.Duration
	// HeldSnapshot is how long any transaction may keep VACUUM from dead rows. Default: 10 minutes.
	HeldSnapshot time.Duration
	// DeadRows is how many of them a table may have, where they are more than a fifth of it; autovacuum counts as late when it waits for ten times
	// as many. Default: 100,000.
	DeadRows int64
	// ClockDistance is how far the clocks of this machine and of the database may be apart. Default: 5 s.
	ClockDistance time.Duration
	// SlotLog is how much of the server's log a replication slot that is read from may keep, in bytes. Default: 1 GiB.
	SlotLog int64
	// Now is this machine's clock. Default: time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.OpenWriter == 0 {
		c.OpenWriter = 2 * time.Minute
	}
	if c.HeldSnapshot == 0 {
		c.HeldSnapshot = 10 * time.Minute
	}
	if c.DeadRows == 0 {
		c.DeadRows = 100_000
	}
	if c.ClockDistance == 0 {
		c.ClockDistance = 5 * time.Second
	}
	if c.SlotLog == 0 {
		c.SlotLog = 1 << 30
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Checks are the looks at what [ReadVital] and the migration's own checks leave out: settings of the server, rights that are too large, who keeps
// the server's log or transactions open, the table's dead rows, its triggers and event ids, and the relays' leases. Each takes a connection of the pool for one short transaction.
func Checks(pool *pgxpool.Pool, table string, cfg Config) ([]Check, error) {
	name, err := pg.ParseTable(table)
	if err != nil {
		return nil, err
	}
	c := checks{pool: pool, table: name, cfg: cfg.withDefaults()}
	return []Check{
		c.check("the server's version is supported", false, c.version),
		c.check("the clocks of this machine and of the database agree", false, c.clock),
		c.check("no replication slot keeps the server's log for long", false, c.slots),
		c.check("a commit is on disk when it is confirmed", true, c.synchronousCommit),
		c.check("no role may do more than it needs", true, c.excess),
		c.check("the source was made in this database", true, c.copied),
		c.check("new rows get ids above those of the rows that are there", true, c.sequence),
		c.check("event ids come in the order of time", true, c.eventIDs),
		c.check("no trigger slows the writers down", true, c.triggers),
		c.check("dead rows are removed in time", true, c.vacuum),
		c.check("no transaction is open for long", true, c.sessions),
		c.check("every lane is there, and has a lease where relays work, and they renew it", true, c.leases),
	}, nil
}

type checks struct {
	pool  *pgxpool.Pool
	table pg.Table
	cfg   Config
}

// examination is a checkup within its transaction.
type examination func(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error)

// check makes the transaction for a look. The server ends a statement at the deadline itself: the driver could only go away from it.
func (c checks) check(subject string, afterMigration bool, l examination) Check {
	return Check{Subject: subject, AfterMigration: afterMigration, Look: func(ctx context.Context) (found []Symptom, unseen string, err error) {
		opts := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly}
		err = pgx.BeginTxFunc(ctx, c.pool, opts, func(tx pgx.Tx) error {
			if deadline, limited := ctx.Deadline(); limited {
				ms := strconv.FormatInt(max(1, time.Until(deadline).Milliseconds()*9/10), 10)
				if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', $1, true)`, ms); err != nil {
					return err
				}
			}
			found, unseen, err = l(ctx, tx)
			return err
		})
		return found, unseen, err
	}}
}

// rounded is a time for people, to the second.
func rounded(seconds float64) time.Duration {
	return time.Duration(seconds) * time.Second
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// plainCount is "1 lane", "2 lanes".
func plainCount(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
