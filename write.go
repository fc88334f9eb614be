package outbox

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Tx is a transaction of pgx: pgx.Tx or *pgxpool.Tx. Commit is never called; asking for it makes that a pool or a connection, where an event
// would be committed by itself, does not compile.
type Tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Commit(ctx context.Context) error
}

// Write stores the events in the table outbox_event within the caller's transaction, by one statement, in the order given. It returns
// their event ids in that order. See [Writer.Write].
func Write(ctx context.Context, tx Tx, events ...Event) ([]uuid.UUID, error) {
	return defaultWriter().Write(ctx, tx, events...)
}

// Write stores the events within the caller's transaction, by one statement, in the order given. It returns their event ids in that order.
// Without events it does nothing.
//
// Errors are [ErrInvalid] and [ErrNoHeadersColumn], after which the transaction goes on; after any other the caller must roll back.
func (w *Writer) Write(ctx context.Context, tx Tx, events ...Event) ([]uuid.UUID, error) {
	p, err := w.PrepareContext(ctx, events...)
	if err != nil || p.Empty() {
		return nil, err
	}
	if err := ask(ctx, tx, p); err != nil {
		return nil, err
	}
	tag, err := tx.Exec(ctx, p.SQL(), p.arrays()...)
	if err := p.Finish(tag.RowsAffected(), err); err != nil {
		return nil, err
	}
	return p.IDs(), nil
}

// ask looks for the headers column before a statement that needs it could break the transaction.
func ask(ctx context.Context, tx Tx, p *Prepared) error {
	sql, args := p.Question()
	if sql == "" {
		return nil
	}
	var answer string
	if err := tx.QueryRow(ctx, sql, args...).Scan(&answer); err != nil {
		return fmt.Errorf("look for the headers column of %s: %w", p.table, err)
	}
	return p.Answer(answer)
}
