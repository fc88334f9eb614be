package checkup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
)

// Vital is what everything else depends on, for a program that looks for faults.
type Vital struct {
	// Recovery tells that the server is a standby, ReadOnly that default_transaction_read_only is on.
	Recovery, ReadOnly bool
	// Pooled tells that the sessions change behind a connection: there is a pooler.
	Pooled bool
	// Prepared is what comes of a statement that was prepared in one transaction and runs in the next, in another session; nil when it runs, or there is no
	// pooler. [pg.FindPoolerTrouble] knows what mends it. context.DeadlineExceeded says that the pooler had no second session for the trial.
	Prepared error
}

const (
	// triedStatement is the name of the statement by which a pooler is tried.
	triedStatement = "outbox_trial"
	// trialLimit is how long a pooler may take to serve a second connection.
	trialLimit = 5 * time.Second
)

// ReadVital looks at the server behind the pool, and at what lies between. It uses two connections, which must prepare nothing by themselves.
func ReadVital(ctx context.Context, pool *pgxpool.Pool) (v Vital, err error) {
	err = pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		var pid uint32
		err := c.QueryRow(ctx, `
SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on', pg_backend_pid()`).Scan(&v.Recovery, &v.ReadOnly, &pid)
		if err != nil {
			return fmt.Errorf("ask the server what it is: %w", err)
		}
		if v.Pooled = pid != c.Conn().PgConn().PID(); v.Pooled {
			v.Prepared, err = tryPrepared(ctx, pool, c.Conn())
		}
		return err
	})
	return v, err
}

// tryPrepared prepares a statement in one transaction and runs it in the next, while another transaction has the session of the first.
func tryPrepared(ctx context.Context, pool *pgxpool.Pool, conn *pgx.Conn) (trouble, err error) {
	server := conn.PgConn()
	if _, trouble := server.Prepare(ctx, triedStatement, "SELECT 1", nil); trouble != nil {
		return trouble, nil
	}
	defer func() { err = errors.Join(err, forgetTrial(ctx, server)) }()
	other, err := pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin beside it: %w", err)
	}
	defer pg.Rollback(other)
	if _, err := other.Exec(ctx, "SELECT 1"); err != nil {
		return nil, fmt.Errorf("hold a session: %w", err)
	}
	turn, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	if trouble = server.ExecPrepared(turn, triedStatement, nil, nil, nil).Read().Err; turn.Err() != nil {
		trouble = turn.Err()
	}
	return trouble, ctx.Err()
}

// forgetTrial leaves nothing behind where the statement is: the session is somebody else's next. Where it is not, the server says so, and that is well.
func forgetTrial(ctx context.Context, server *pgconn.PgConn) error {
	if server.IsClosed() {
		return nil
	}
	err := server.Deallocate(ctx, triedStatement)
	if pg.Code(err) != "" {
		return nil
	}
	return err
}
