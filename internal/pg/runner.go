package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// CallTimeout bounds every call to the database, whatever the caller's context says: on a half-open connection nothing else would end it.
const CallTimeout = 30 * time.Second

// PingTimeout bounds the question whether a connection still answers. A connection that does not is made anew.
const PingTimeout = 3 * time.Second

// Querier is a connection, a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Runner gives a connection to fn, one call at a time, bounded in time. What fn leaves behind (an open transaction, a broken
// connection) reaches no later call.
type Runner interface {
	Run(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error
}

// OnPool lends connections of a pool, which closes what comes back inside a transaction.
func OnPool(pool *pgxpool.Pool) Runner { return poolRunner{pool} }

type poolRunner struct{ pool *pgxpool.Pool }

func (p poolRunner) Run(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return p.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return fn(ctx, c.Conn()) })
}
