package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// halves does something with many rows at once. What the server refuses is tried in halves until it is known which rows it was, and does not keep the others from being done.
type halves[T any] struct {
	// do does it within tx, a savepoint.
	do func(ctx context.Context, tx pgx.Tx, rows []T) error
	// tell tells whether an error is about rows, and not about everything.
	tell func(error) bool
	// take takes rows with their error, which ends the matter for them and repeats no values of theirs. It returns false when halves are to be tried; not of a single row.
	take func(rows []T, err error) bool
}

// attempt does it in tx.
func (h halves[T]) attempt(ctx context.Context, tx pgx.Tx, rows []T) error {
	point, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if err = h.do(ctx, point, rows); err == nil {
		return point.Commit(ctx)
	}
	if rerr := point.Rollback(ctx); rerr != nil {
		return errors.Join(err, rerr)
	}
	if ctx.Err() != nil || !h.tell(err) {
		return err
	}
	if h.take(rows, withoutValues(err)) {
		return nil
	}
	half := len(rows) / 2
	if err := h.attempt(ctx, tx, rows[:half]); err != nil {
		return err
	}
	return h.attempt(ctx, tx, rows[half:])
}

// refusedRows counts the rows that the server refuses, and keeps why of the first.
type refusedRows struct {
	n     int
	first error
}

func (r *refusedRows) add(err error) {
	if r.n++; r.first == nil {
		r.first = err
	}
}

// err is nil when nothing was refused.
func (r *refusedRows) err() error {
	if r.n > 1 {
		return fmt.Errorf("%d of them are refused: %w", r.n, r.first)
	}
	return r.first
}
