package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// allowsTransactions finds a pooler in statement mode before work begins.
func allowsTransactions(ctx context.Context, conn *pgx.Conn) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit an empty transaction: %w", err)
	}
	return nil
}

// shareLimit is how long all sessions together may wait for the pooler to give each a connection for a moment.
const shareLimit = 10 * time.Second

// shareable finds a pooler that binds a connection to each session for good and has too few of them: the work would stand still at some
// later statement, without a word.
func shareable(ctx context.Context, sessions []*session) error {
	ctx, cancel := context.WithTimeout(ctx, shareLimit)
	defer cancel()
	errs := make([]error, len(sessions))
	var wg sync.WaitGroup
	for i, s := range sessions {
		wg.Go(func() {
			errs[i] = s.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error { return conn.Ping(ctx) })
		})
	}
	wg.Wait()
	served := 0
	for _, err := range errs {
		if err == nil {
			served++
		}
	}
	err := firstError(errs...)
	if err == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("the pooler serves %d of the relay's %d connections and lets the others wait: set pool_mode=transaction in PgBouncer, or with "+
		"pool_mode=session a default_pool_size of 6 for each relay", served, len(sessions))
}
