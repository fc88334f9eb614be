package benchmark

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// writers is how many connections write at the same time while latency is measured.
const writers = 8

// workers are the connections by which the bench writes as a service does. The pool of the caller, which has few connections, is for what surrounds that.
type workers struct{ pool *pgxpool.Pool }

func newWorkers(ctx context.Context, like *pgxpool.Pool) (*workers, error) {
	cfg := like.Config()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = writers, 0, 0
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("make a pool: %w", err)
	}
	return &workers{pool}, nil
}

// with lends a connection.
func (w *workers) with(ctx context.Context, do func(*pgxpool.Conn) error) error {
	conn, err := w.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	return do(conn)
}

func (w *workers) close() { w.pool.Close() }
