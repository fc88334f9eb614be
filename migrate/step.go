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
		// Others who migrate are waited for however long they take; the timeout is for the locks of traffic only.
		sql := fmt.Sprintf("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(%d); SET LOCAL lock_timeout = %d",
			int64(advisoryLock), s.LockTimeout.Milliseconds())
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
		return f(tx)
	})
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
