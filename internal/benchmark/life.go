package benchmark

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// lifePeriod is how often a run asks whether its sign of life is still there.
	lifePeriod = 2 * time.Second
	// lifeAnswer is how long the answer may take.
	lifeAnswer = 15 * time.Second
)

// life is a transaction that holds the lock of a run's name: while it lasts, no other run takes what the run has made for left.
type life struct {
	mu sync.Mutex
	tx pgx.Tx
}

// takeLife takes the lock of a name. A nil life without an error says that another holds it.
func takeLife(ctx context.Context, pool *pgxpool.Pool, schema string) (*life, error) {
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return nil, fmt.Errorf("begin the transaction that tells that the bench lives: %w", err)
	}
	l := &life{tx: tx}
	free, err := l.lock(ctx, schema)
	if err != nil || !free {
		l.end(context.WithoutCancel(ctx))
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock the name of the run: %w", err)
	case !free:
		return nil, nil
	}
	return l, nil
}

// lock takes the limits away that would end the transaction, and tells whether the name was free.
func (l *life) lock(ctx context.Context, schema string) (free bool, err error) {
	for _, limit := range []string{"idle_in_transaction_session_timeout", "transaction_timeout"} {
		// Before version 17 a server has no transaction_timeout.
		if _, err := l.tx.Exec(ctx, "SELECT set_config($1::text, '0', true) WHERE current_setting($1::text, true) IS NOT NULL", limit); err != nil {
			return false, err
		}
	}
	err = l.tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))", schema).Scan(&free)
	return free, err
}

// ask tells by an error that the sign is lost. An interruption does not reach it, for that would end the connection.
func (l *life) ask(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifeAnswer)
	defer cancel()
	if _, err := l.tx.Exec(ctx, "SELECT 1"); err != nil {
		return fmt.Errorf("the transaction that tells that the bench lives was ended, so that another run may remove what this one has made: "+
			"start it again, and where a pooler or an operator ends transactions that are idle, let it connect to the server itself: %w", err)
	}
	return nil
}

// watch asks again and again until ctx ends, and calls lost once.
func (l *life) watch(ctx context.Context, lost func(error)) {
	tick := time.NewTicker(lifePeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := l.ask(ctx); err != nil {
				lost(err)
				return
			}
		}
	}
}

// during does something while the sign is there. When that is lost, what is done is interrupted, and the error is about the loss alone.
func (l *life) during(ctx context.Context, do func(context.Context) error) error {
	watched, stop := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() {
		var lost error
		l.watch(watched, func(err error) {
			lost = err
			stop(err)
		})
		ended <- lost
	}()
	err := do(watched)
	stop(nil)
	if lost := <-ended; lost != nil {
		return lost
	}
	return err
}

// end gives the lock back. One that outlives its run for the moment of a broken connection hurts nobody.
func (l *life) end(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, cleanupLimit)
	defer cancel()
	_ = l.tx.Rollback(ctx)
}
