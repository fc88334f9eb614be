package outboxsql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox"
)

// Tx is a transaction of database/sql: *sql.Tx, or a type that embeds it. Commit is never called; asking for it makes that a *sql.DB or a
// *sql.Conn, where an event would be committed by itself, does not compile.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	Commit() error
}

// Writer writes events with its own settings. It may be used by many goroutines.
type Writer struct{ w *outbox.Writer }

// NewWriter returns a writer, or everything that is wrong with its configuration.
func NewWriter(cfg outbox.Config) (*Writer, error) {
	w, err := outbox.NewWriter(cfg)
	if err != nil {
		return nil, err
	}
	return &Writer{w}, nil
}

// Write stores the events in the table outbox_event within the caller's transaction, by one statement, in the order given. It returns
// their event ids in that order. See [Writer.Write].
func Write(ctx context.Context, tx Tx, events ...outbox.Event) ([]uuid.UUID, error) {
	w, err := NewWriter(outbox.Config{})
	if err != nil {
		return nil, err
	}
	return w.Write(ctx, tx, events...)
}

// Write stores the events within the caller's transaction, by one statement, in the order given. It returns their event ids in that order.
// Without events it does nothing.
//
// Errors are [outbox.ErrInvalid] and [outbox.ErrNoHeadersColumn], after which the transaction goes on; after any other the caller must
// roll back.
func (w *Writer) Write(ctx context.Context, tx Tx, events ...outbox.Event) ([]uuid.UUID, error) {
	p, err := w.w.PrepareContext(ctx, events...)
	if err != nil || p.Empty() {
		return nil, err
	}
	if err := ask(ctx, tx, p); err != nil {
		return nil, err
	}
	if err := run(ctx, tx, p); err != nil {
		return nil, err
	}
	return p.IDs(), nil
}

// ask looks for the headers column before a statement that needs it could break the transaction.
func ask(ctx context.Context, tx Tx, p *outbox.Prepared) error {
	query, args := p.Question()
	if query == "" {
		return nil
	}
	var answer string
	if err := tx.QueryRowContext(ctx, query, args...).Scan(&answer); err != nil {
		return fmt.Errorf("look for the headers column: %w", err)
	}
	return p.Answer(answer)
}

func run(ctx context.Context, tx Tx, p *outbox.Prepared) error {
	result, err := tx.ExecContext(ctx, p.SQL(), p.Args()...)
	if err != nil {
		return p.Finish(0, err)
	}
	stored, err := result.RowsAffected()
	return p.Finish(stored, err)
}
