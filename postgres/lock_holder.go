package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
)

// sayWaits says once, in a line of the log, whom the transaction waits for if it does, at once or after other work. The caller ends it by done.
func (o *Operator) sayWaits(ctx context.Context, tx pgx.Tx, what string) (done func(), err error) {
	var pid int32
	if err := tx.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for said := false; !said; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pg.QuietWait):
			}
			h := pg.ReadLockHolder(ctx, o.db.Pool, `(pg_blocking_pids($1))[1]`, pid)
			if said = h.PID != 0; said {
				o.log.Warn("waiting for a lock", "table", o.db.Table.String(), "what", what, "locked_by", h.String())
			}
		}
	}()
	return func() {
		cancel()
		<-over
	}, nil
}
