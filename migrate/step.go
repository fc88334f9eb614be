package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Conn is a connection or a pool of pgx, direct or through a pooler. Migrating needs the rights to create what is missing.
type Conn interface {
	Querier
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// advisoryLock orders all who migrate one database. It is the text "outbox" as a number.
const advisoryLock = 0x6f7574626f78

// stepTries is how often a step comes back after traffic kept a lock from it.
const stepTries = 60

// step runs f in a transaction, alone among all who migrate. It gives way to traffic: a lock that is not free within the lock timeout
// ends the transaction, so that nobody queues behind it, and the step is tried again after a pause of the same length.
func (s settings) step(ctx context.Context, c Conn, f func(pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := s.tryStep(ctx, c, f)
		if !worthAnotherTry(err) {
			return err
		}
		s.Waiting(fmt.Sprintf("other transactions keep a lock that this needs (%v): it is tried again, up to %d times", err, stepTries))
		if try == stepTries {
			return fmt.Errorf("%w; other transactions kept a lock through %d tries of %s each: end the long ones, or migrate at a quieter time",
				err, try, s.LockTimeout)
		}
		if waitErr := pause(ctx, s.LockTimeout); waitErr != nil {
			return errors.Join(err, waitErr)
		}
	}
}

// tryStep pins the isolation and access mode: a database may have stricter defaults, under which waiting for the advisory lock means
// reading an old snapshot.
func (s settings) tryStep(ctx context.Context, c Conn, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		if err := s.awaitOthers(ctx, tx); err != nil {
			return err
		}
		// Others who migrate are waited for however long they take; the timeout is for the locks of traffic only.
		sql := fmt.Sprintf("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(%d); SET LOCAL lock_timeout = %d",
			int64(advisoryLock), s.LockTimeout.Milliseconds())
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
		return f(tx)
	})
}

const (
	// quietWait is for how long others who migrate are waited for without a word.
	quietWait = time.Second
	// quietLook is how often it is looked whether they have ended meanwhile.
	quietLook = 100 * time.Millisecond
)

// awaitOthers returns with the advisory lock, or when it has said who has it.
func (s settings) awaitOthers(ctx context.Context, tx pgx.Tx) error {
	for range quietWait / quietLook {
		var got bool
		err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, pgx.QueryExecModeExec, int64(advisoryLock)).Scan(&got)
		if err != nil || got {
			return err
		}
		if err := pause(ctx, quietLook); err != nil {
			return err
		}
	}
	var pid int32
	var application, since string
	err := tx.QueryRow(ctx, `
SELECT l.pid, coalesce(a.application_name, ''), coalesce(date_trunc('second', clock_timestamp() - a.xact_start)::text, '')
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.classid::bigint = $1::bigint >> 32 AND l.objid::bigint = $1::bigint & 4294967295
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) LIMIT 1`, pgx.QueryExecModeExec, int64(advisoryLock)).Scan(&pid, &application, &since)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // it has ended in this moment
	case err != nil:
		return fmt.Errorf("look who migrates: %w", err)
	default:
		s.Waiting(fmt.Sprintf("somebody else migrates this database: process %d of the server, application %q, in a transaction for %s; this goes on when that ends", pid, application, since))
	}
	return nil
}

func worthAnotherTry(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "55P03", "40P01", "40001": // lock not available, deadlock, serialization failure
		return true
	}
	return false
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
