package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
)

// MaxLanes is the largest number of lanes that a source can have.
const MaxLanes = 1024

// Lanes returns the source's lanes, in ascending order.
func (o *Operator) Lanes(ctx context.Context) ([]LaneStatus, error) {
	row, err := o.db.Source(ctx)
	if err != nil {
		return nil, err
	}
	var lanes []LaneStatus
	err = o.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		lanes, err = readLanes(ctx, conn, row.ID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look at the lanes of %s: %w", o.db.Table, err)
	}
	return lanes, nil
}

// SetLanes changes the number of lanes, 1 to [MaxLanes]. It refuses while a relay is alive or a lane is leased: relays that disagree about
// the number would publish a key twice. It needs the rights of the
// schema outbox's owner; without them the error is relay.ErrConfiguration.
func (o *Operator) SetLanes(ctx context.Context, n int) error {
	if n < 1 || n > MaxLanes {
		return fmt.Errorf("set the lanes of %s: %d lanes: want 1 to %d", o.db.Table, n, MaxLanes)
	}
	row, err := o.db.Source(ctx)
	if err != nil {
		return err
	}
	err = pg.InTx(ctx, o.db, func(ctx context.Context, tx pgx.Tx) error {
		done, err := o.sayWaits(ctx, tx, "set the lanes")
		if err != nil {
			return err
		}
		defer done()
		return setLanes(ctx, tx, row, n)
	})
	if pg.Code(err) == "42501" {
		return pg.Misconfigured(fmt.Errorf("set the lanes of %s: %w; it needs the rights with which outbox migrate up was run", o.db.Table, err))
	}
	if err != nil {
		return fmt.Errorf("set the lanes of %s: %w", o.db.Table, err)
	}
	return nil
}

// AwaitSetLanes is SetLanes, and waits until that is possible: until all relays of the table are stopped and no intent is open. Requests that are open then
// are carried out first. waiting is called with what is waited for, each time that changes. ctx bounds the wait; the error then says what was waited for.
func (o *Operator) AwaitSetLanes(ctx context.Context, n int, waiting func(what string)) error {
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	busy := &busyError{}
	for {
		err := o.stopped(ctx)
		if err == nil {
			err = o.SetLanes(ctx, n)
		}
		said := busy.what
		if !errors.As(err, &busy) && (ctx.Err() == nil || said == "") {
			return err
		}
		if busy.what != said {
			waiting(busy.what)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("set the lanes of %s: waited in vain, nothing was changed: %w", o.db.Table, busy)
		case <-tick.C:
		}
	}
}

// stopped looks without a lock, which would get in the way of the relays that are waited for, and does what is left to do when they are gone.
func (o *Operator) stopped(ctx context.Context) error {
	row, err := o.db.Source(ctx)
	if err != nil {
		return err
	}
	if err := firstError(refuseIfAlive(ctx, o.db.Pool, row.ID), refuseIfIntended(ctx, o.db.Pool, row.ID)); err != nil {
		return err
	}
	for {
		var open int
		err := o.db.Pool.QueryRow(ctx, `SELECT count(*) FROM outbox.request WHERE source = $1 AND done_at IS NULL`, row.ID).Scan(&open)
		if err != nil {
			return fmt.Errorf("count the requests for %s: %w", o.db.Table, err)
		}
		if open == 0 {
			return nil
		}
		if err := refuseIfAlive(ctx, o.db.Pool, row.ID); err != nil {
			return err
		}
		if err := o.standIn(ctx, row); err != nil {
			return fmt.Errorf("carry out the requests for %s that are open: %w", o.db.Table, err)
		}
	}
}

// setLanes keeps everybody else out first: whoever claims lanes, or registers to compete for rows, waits, and then finds the new number.
func setLanes(ctx context.Context, tx pgx.Tx, row pg.Source, n int) error {
	source := row.ID
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, modeLock(source)); err != nil {
		return fmt.Errorf("take the mode lock: %w", err)
	}
	var lanes int
	err := tx.QueryRow(ctx, `SELECT lanes FROM outbox.source WHERE id = $1 FOR UPDATE`, source).Scan(&lanes)
	switch {
	case err != nil:
		return fmt.Errorf("lock the source: %w", err)
	case lanes == n:
		return nil
	case n > 1 && !row.Shareable:
		return fmt.Errorf("%d lanes: %w", n, errOneLane)
	}
	// The locks end every decision and every renewal that is under way.
	if _, err := tx.Exec(ctx, `SELECT FROM outbox.lane WHERE source = $1 ORDER BY lane FOR UPDATE`, source); err != nil {
		return fmt.Errorf("lock the lanes: %w", err)
	}
	if err := refuseIfAlive(ctx, tx, source); err != nil {
		return err
	}
	if err := refuseIfIntended(ctx, tx, source); err != nil {
		return err
	}
	return relane(ctx, tx, row, n)
}

// busyError says what has to end before the number of lanes can be changed.
type busyError struct {
	// what says it without what changes from one moment to the next.
	what string
	err  error
}

func (e *busyError) Error() string { return e.err.Error() }

// refuseIfAlive names the relays that are alive, and owners of leases that still last.
func refuseIfAlive(ctx context.Context, q pg.Querier, source uuid.UUID) error {
	rows, err := q.Query(ctx, `
SELECT name, (extract(epoch FROM max(expires_at) - clock_timestamp()) * 1000000)::bigint FROM (
    SELECT owner, name, expires_at FROM outbox.relay WHERE source = $1
    UNION ALL
    SELECT l.owner, coalesce(r.name, l.owner::text), l.expires_at
    FROM outbox.lane l LEFT JOIN outbox.relay r ON r.source = l.source AND r.owner = l.owner WHERE l.source = $1
) alive WHERE expires_at > clock_timestamp() GROUP BY owner, name ORDER BY name`, source)
	if err != nil {
		return fmt.Errorf("look for relays that are alive: %w", err)
	}
	var names, quoted []string
	var name string
	var us int64
	_, err = pgx.ForEachRow(rows, []any{&name, &us}, func() error {
		quoted = append(quoted, strconv.Quote(name))
		names = append(names, fmt.Sprintf("%q (alive for %s unless it says so again)", name, pg.Microseconds(us).Round(100*time.Millisecond)))
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("look for relays that are alive: %w", err)
	case len(names) > 0:
		return &busyError{"relays that are alive: " + strings.Join(quoted, ", "),
			fmt.Errorf("relays are alive: %s; stop all relays of this table first, and wait for those that have crashed", strings.Join(names, ", "))}
	}
	return nil
}

// refuseIfIntended keeps the account of exactly-once delivery: an open intent is decided by lane.
func refuseIfIntended(ctx context.Context, q pg.Querier, source uuid.UUID) error {
	var open []int32
	err := q.QueryRow(ctx, `SELECT array(SELECT lane FROM outbox.lane WHERE source = $1 AND intent_id IS NOT NULL ORDER BY lane)`, source).Scan(&open)
	switch {
	case err != nil:
		return fmt.Errorf("look for open intents: %w", err)
	case len(open) > 0:
		return &busyError{fmt.Sprintf("open intents of the lanes %v", open),
			fmt.Errorf("the lanes %v have an open intent, that is, events of which nobody knows whether Kafka has them: start a relay, which finds "+
				"out, and stop it again", open)}
	}
	return nil
}

// relane makes n lanes of the locked ones, all in an epoch that none has had: what somebody decides who woke up in the old ones is void. Every key gets its new
// lane where it is written down.
func relane(ctx context.Context, tx pgx.Tx, row pg.Source, n int) error {
	_, err := tx.Exec(ctx, `
UPDATE outbox.lane SET owner = NULL, expires_at = NULL, epoch = (SELECT max(epoch) + 1 FROM outbox.lane WHERE source = $1) WHERE source = $1`, row.ID)
	if err != nil {
		return fmt.Errorf("raise the epochs: %w", err)
	}
	newLane := row.Lane("partition_key", "$2::integer")
	for _, sql := range []string{
		`UPDATE outbox.source SET lanes = $2 WHERE id = $1`,
		`INSERT INTO outbox.lane (source, lane, epoch)
SELECT $1, l, (SELECT max(epoch) FROM outbox.lane WHERE source = $1) FROM generate_series(0, $2::integer - 1) l ON CONFLICT (source, lane) DO NOTHING`,
		`DELETE FROM outbox.lane WHERE source = $1 AND lane >= $2`,
		`UPDATE outbox.parked_key SET lane = ` + newLane + ` WHERE source = $1`,
		`UPDATE outbox.dead_event SET lane = ` + newLane + ` WHERE source = $1`,
		`UPDATE outbox.failure SET lane = ` + newLane + ` WHERE source = $1`,
	} {
		if _, err := tx.Exec(ctx, sql, row.ID, n); err != nil {
			return fmt.Errorf("change the lanes: %w", err)
		}
	}
	return nil
}
