package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// MaxLanes is the largest number of lanes that a source can have.
const MaxLanes = 1024

// Lanes returns the source's lanes, in ascending order.
func (o *Operator) Lanes(ctx context.Context) ([]LaneStatus, error) {
	row, err := o.source(ctx)
	if err != nil {
		return nil, err
	}
	var lanes []LaneStatus
	err = o.db.run(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		lanes, err = readLanes(ctx, conn, row.id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look at the lanes of %s: %w", o.table, err)
	}
	return lanes, nil
}

// SetLanes changes the number of lanes, 1 to [MaxLanes]. It refuses while a relay is alive or a lane is leased: relays that disagree about
// the number would publish a key twice. It needs the rights of the
// schema outbox's owner; without them the error is relay.ErrConfiguration.
func (o *Operator) SetLanes(ctx context.Context, n int) error {
	if n < 1 || n > MaxLanes {
		return fmt.Errorf("set the lanes of %s: %d lanes: want 1 to %d", o.table, n, MaxLanes)
	}
	row, err := o.source(ctx)
	if err != nil {
		return err
	}
	err = inTx(ctx, o.db, func(ctx context.Context, tx pgx.Tx) error { return setLanes(ctx, tx, row, n) })
	if code(err) == "42501" {
		return misconfigured{fmt.Errorf("set the lanes of %s: %w; it needs the rights with which outbox migrate up was run", o.table, err)}
	}
	if err != nil {
		return fmt.Errorf("set the lanes of %s: %w", o.table, err)
	}
	return nil
}

// setLanes keeps everybody else out first: whoever claims lanes, or registers to compete for rows, waits, and then finds the new number.
func setLanes(ctx context.Context, tx pgx.Tx, row sourceRow, n int) error {
	source := row.id
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
	case n > 1 && !row.shareable:
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

// refuseIfAlive names the relays that are alive, and owners of leases that still last.
func refuseIfAlive(ctx context.Context, tx pgx.Tx, source uuid.UUID) error {
	rows, err := tx.Query(ctx, `
SELECT name, (extract(epoch FROM max(expires_at) - clock_timestamp()) * 1000000)::bigint FROM (
    SELECT owner, name, expires_at FROM outbox.relay WHERE source = $1
    UNION ALL
    SELECT l.owner, coalesce(r.name, l.owner::text), l.expires_at
    FROM outbox.lane l LEFT JOIN outbox.relay r ON r.source = l.source AND r.owner = l.owner WHERE l.source = $1
) alive WHERE expires_at > clock_timestamp() GROUP BY owner, name ORDER BY name`, source)
	if err != nil {
		return fmt.Errorf("look for relays that are alive: %w", err)
	}
	var names []string
	var name string
	var us int64
	_, err = pgx.ForEachRow(rows, []any{&name, &us}, func() error {
		names = append(names, fmt.Sprintf("%q (alive for %s unless it says so again)", name, microseconds(us).Round(100*time.Millisecond)))
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("look for relays that are alive: %w", err)
	case len(names) > 0:
		return fmt.Errorf("relays are alive: %s; stop all relays of this table first, and wait for those that have crashed", strings.Join(names, ", "))
	}
	return nil
}

// refuseIfIntended keeps the account of exactly-once delivery: an open intent is decided by lane.
func refuseIfIntended(ctx context.Context, tx pgx.Tx, source uuid.UUID) error {
	var open []int32
	err := tx.QueryRow(ctx, `SELECT array(SELECT lane FROM outbox.lane WHERE source = $1 AND intent_id IS NOT NULL ORDER BY lane)`, source).Scan(&open)
	switch {
	case err != nil:
		return fmt.Errorf("look for open intents: %w", err)
	case len(open) > 0:
		return fmt.Errorf("the lanes %v have an open intent, that is, events of which nobody knows whether Kafka has them: start a relay, which finds "+
			"out, and stop it again", open)
	}
	return nil
}

// relane makes n lanes of the locked ones, all in an epoch that none has had: what somebody decides who woke up in the old ones is void. Every key gets its new
// lane where it is written down.
func relane(ctx context.Context, tx pgx.Tx, row sourceRow, n int) error {
	_, err := tx.Exec(ctx, `
UPDATE outbox.lane SET owner = NULL, expires_at = NULL, epoch = (SELECT max(epoch) + 1 FROM outbox.lane WHERE source = $1) WHERE source = $1`, row.id)
	if err != nil {
		return fmt.Errorf("raise the epochs: %w", err)
	}
	newLane := row.lane("partition_key", "$2::integer")
	for _, sql := range []string{
		`UPDATE outbox.source SET lanes = $2 WHERE id = $1`,
		`INSERT INTO outbox.lane (source, lane, epoch)
SELECT $1, l, (SELECT max(epoch) FROM outbox.lane WHERE source = $1) FROM generate_series(0, $2::integer - 1) l ON CONFLICT (source, lane) DO NOTHING`,
		`DELETE FROM outbox.lane WHERE source = $1 AND lane >= $2`,
		`UPDATE outbox.parked_key SET lane = ` + newLane + ` WHERE source = $1`,
		`UPDATE outbox.dead_event SET lane = ` + newLane + ` WHERE source = $1`,
		`UPDATE outbox.failure SET lane = ` + newLane + ` WHERE source = $1`,
	} {
		if _, err := tx.Exec(ctx, sql, row.id, n); err != nil {
			return fmt.Errorf("change the lanes: %w", err)
		}
	}
	return nil
}
