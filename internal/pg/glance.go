package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Glance runs fn in one read-only snapshot with a time limit that the server keeps: a client that goes away stops nothing there.
func Glance[T any](ctx context.Context, db Runner, row Source, limit time.Duration,
	fn func(context.Context, pgx.Tx) (T, error),
) (T, error) {
	var result T
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := WithTx(ctx, db, opts, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', $1, true)`, Milliseconds(limit)); err != nil {
			return err
		}
		var err error
		result, err = fn(ctx, tx)
		return err
	})
	if Code(err) == "57014" && ctx.Err() == nil {
		err = fmt.Errorf("%w: it took longer than %s; %s", err, limit, "is the index for what is unpublished missing?")
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("look at %s: %w", row.Table, err)
	}
	return result, nil
}

// Microseconds is a duration that a statement returns as its number.
func Microseconds(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
