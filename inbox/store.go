package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Store is the database as a [Processor] needs it. [Pool] is one for pgx, [DB] one for database/sql.
type Store[Tx any] interface {
	// Begin begins a transaction.
	Begin(ctx context.Context) (Tx, error)
	// Commit commits it, or Rollback ends it; an error of Rollback tells that the connection is broken. The context that they get does not end with the one that Begin got,
	// but after 30 s.
	Commit(ctx context.Context, tx Tx) error
	Rollback(ctx context.Context, tx Tx) error
	// Query runs a statement within the transaction, and returns the only column of its rows.
	Query(ctx context.Context, tx Tx, query string, args ...any) ([]string, error)
}

// Pool is the [Store] of a pool of pgx. A handler gets a pgx.Tx.
func Pool(pool *pgxpool.Pool) Store[pgx.Tx] { return pgxStore{pool} }

// DB is the [Store] of a database/sql pool, with every driver for PostgreSQL. A handler gets a *sql.Tx.
func DB(db *sql.DB) Store[*sql.Tx] { return sqlStore{db} }

type pgxStore struct{ pool *pgxpool.Pool }

func (s pgxStore) Begin(ctx context.Context) (pgx.Tx, error) { return s.pool.Begin(ctx) }

func (s pgxStore) Commit(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }

func (s pgxStore) Rollback(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }

func (s pgxStore) Query(ctx context.Context, tx pgx.Tx, query string, args ...any) ([]string, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

type sqlStore struct{ db *sql.DB }

func (s sqlStore) Begin(ctx context.Context) (*sql.Tx, error) { return s.db.BeginTx(ctx, nil) }

func (s sqlStore) Commit(_ context.Context, tx *sql.Tx) error { return tx.Commit() }

// Rollback takes it as done when database/sql has rolled back by itself, because a context has ended.
func (s sqlStore) Rollback(_ context.Context, tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

func (s sqlStore) Query(ctx context.Context, tx *sql.Tx, query string, args ...any) (found []string, err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		found = append(found, s)
	}
	return found, rows.Err()
}

// inTx runs fn in a transaction of its own. Its error has [ErrUnavailable] in it when the database is why, errConflict when another transaction is.
func inTx[Tx any](ctx context.Context, s Store[Tx], fn func(tx Tx) error) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return unavailable("begin a transaction", err)
	}
	if err := fn(tx); err != nil {
		ctx, cancel := ending(ctx)
		defer cancel()
		if broken := s.Rollback(ctx, tx); broken != nil || ofServer(sqlState(err)) {
			return unavailable("handle", err)
		}
		return conflict(err)
	}
	ctx, cancel := ending(ctx)
	defer cancel()
	if err := s.Commit(ctx, tx); err != nil {
		if state := sqlState(err); state == "" && !rolledBack(err) || ofServer(state) {
			// Whether it is committed nobody knows. If it is, the event is a repeat the next time.
			return unavailable("commit", err)
		}
		return conflict(fmt.Errorf("commit: %w", err))
	}
	return nil
}

// endTimeout bounds the end of a transaction: a server that has vanished from the network answers nothing, and says nothing.
const endTimeout = 30 * time.Second

func ending(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
}

// rolledBack tells of a commit that the server has answered with a rollback: a statement has failed, and the handler has taken it as done.
func rolledBack(err error) bool {
	return errors.Is(err, pgx.ErrTxCommitRollback) || strings.Contains(err.Error(), "in a failed transaction") // lib/pq's
}

func unavailable(doing string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, doing, err)
}

func conflict(err error) error {
	if ofOthers(sqlState(err)) {
		return fmt.Errorf("%w: %w", errConflict, err)
	}
	return err
}
