package retention

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

const (
	// exclusionWait is how long a run waits for another one to end.
	exclusionWait = 30 * time.Second
	// exclusionLook is how often it looks.
	exclusionLook = 200 * time.Millisecond
)

// exclusion lets one run at a time change the partitions of a table. It is an advisory lock in a transaction that stays open beside the run, on a connection of its own:
// behind a pooler nothing lasts but a transaction, and a partition cannot be detached within one. Such a transaction holds no table and no snapshot, so nothing waits for it.
type exclusion struct {
	conn *pgx.Conn
	tx   pgx.Tx
}

// partitionLock is the key of the lock: the half of the source's random id that is not its mode lock.
func partitionLock(source uuid.UUID) int64 { return int64(binary.BigEndian.Uint64(source[8:])) }

// exclude waits for the lock, not longer than wait.
func (o *Pruner) exclude(ctx context.Context, row pg.Source, wait time.Duration) (*exclusion, error) {
	conn, err := pg.Connector{Pool: o.db.Pool, ApplicationName: "outbox-prune"}.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect for the lock of the partitions: %w", err)
	}
	e := &exclusion{conn: conn}
	say := func(h pg.LockHolder) {
		o.Logger.Warn("waiting for another run that changes the partitions", "table", row.Table.String(), "locked_by", h.String(), "within", wait.String())
	}
	if err := e.take(ctx, row, wait, say); err != nil {
		e.release(ctx)
		return nil, err
	}
	return e, nil
}

// take asks again and again, each time in a transaction of its own, instead of waiting in the server: a statement that waits has a snapshot, and detaching waits for those; and a
// transaction keeps a connection of a pooler, which the run that is waited for may need.
// say is told once who is waited for.
func (e *exclusion) take(ctx context.Context, row pg.Source, wait time.Duration, say func(pg.LockHolder)) error {
	tick := time.NewTicker(exclusionLook)
	defer tick.Stop()
	said := false
	for began, end := time.Now(), time.After(wait); ; {
		got, err := e.try(ctx, row)
		if err != nil {
			return fmt.Errorf("lock the partitions: %w", err)
		}
		if got {
			return nil
		}
		if !said && time.Since(began) >= pg.QuietWait {
			said = true
			say(e.holder(ctx, row))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return operate.Refuse(operate.CodeConflict, "another run of outbox prune --partitions is at work on %s: run it again when that has ended", row.Table)
		case <-tick.C:
		}
	}
}

// try leaves the transaction open when it has got the lock, and else none.
func (e *exclusion) try(ctx context.Context, row pg.Source) (got bool, err error) {
	tx, err := e.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return false, err
	}
	if err = tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1::bigint)`, partitionLock(row.ID)).Scan(&got); err == nil && got {
		// It is idle for as long as the run takes.
		_, err = tx.Exec(ctx, `SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`)
	}
	if err != nil || !got {
		pg.Rollback(tx)
		return false, err
	}
	e.tx = tx
	return true, nil
}

// holder looks who has the lock.
func (e *exclusion) holder(ctx context.Context, row pg.Source) pg.LockHolder {
	return pg.ReadLockHolder(ctx, e.conn, `SELECT l.pid FROM pg_locks l
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.classid::bigint = ($1::bigint >> 32) & 4294967295 AND l.objid::bigint = $1::bigint & 4294967295
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) LIMIT 1`, partitionLock(row.ID))
}

// check tells that the lock is still held: the server gives it to others when this connection is gone.
func (e *exclusion) check(ctx context.Context) error {
	if _, err := e.tx.Exec(ctx, "SELECT"); err != nil {
		return fmt.Errorf("keep the lock of the partitions; run it again: %w", err)
	}
	return nil
}

// release ends the transaction before the connection: a pooler may keep that for others.
func (e *exclusion) release(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	if e.tx != nil {
		pg.Rollback(e.tx)
	}
	// The server ends the session when the socket goes.
	_ = e.conn.Close(ctx)
}
