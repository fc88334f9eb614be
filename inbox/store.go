package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

// opener is what a [Store] may be as well: it begins a transaction and runs its first statement in one round trip. The caller ends the transaction also after an
// error of the statement, which is one that has an SQLSTATE; after any other there is none.
type opener[Tx any] interface {
	open(ctx context.Context, first statement) (tx Tx, found []string, err error)
}

// statement is one with its parameters; the zero one does nothing.
type statement struct {
	query string
	args  []any
}

// Pool is the [Store] of a pool of pgx. A handler gets a pgx.Tx, whose Commit and Rollback it may not use.
func Pool(pool *pgxpool.Pool) Store[pgx.Tx] { return pgxStore{pool} }

// DB is the [Store] of a database/sql pool, with every driver for PostgreSQL. A handler gets a *sql.Tx, whose Commit and Rollback it may not use.
func DB(db *sql.DB) Store[*sql.Tx] { return sqlStore{db} }

type pgxStore struct{ pool *pgxpool.Pool }

func (s pgxStore) Begin(ctx context.Context) (pgx.Tx, error) { return s.pool.Begin(ctx) }

func (s pgxStore) open(ctx context.Context, first statement) (pgx.Tx, []string, error) {
	var batch pgx.Batch
	batch.BeginTx(pgx.TxOptions{})
	batch.Queue(first.query, first.args...)
	results := s.pool.SendBatch(ctx, &batch)
	var found []string
	_, err := results.Exec()
	if err == nil {
		rows, _ := results.Query() // its error is the one of the rows
		found, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	closed := results.Close() // before it the transaction may not be used
	if err == nil {
		err = closed
	}
	tx := results.Tx()
	var unconnected *pgconn.ConnectError
	if err != nil && (sqlState(err) == "" || errors.As(err, &unconnected)) {
		ctx, cancel := ending(ctx)
		defer cancel()
		_ = tx.Rollback(ctx) // gives the connection back, which is broken
		return nil, nil, unavailable("begin a transaction", err)
	}
	return tx, found, err
}

func (s pgxStore) Commit(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }

// Rollback takes it as done when there is no transaction: one that was to begin with a statement that cannot be prepared.
func (s pgxStore) Rollback(ctx context.Context, tx pgx.Tx) error {
	if err := tx.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	return nil
}

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

// inTx runs a statement, and fn with the rows of it, in a transaction of their own. Its error has [ErrUnavailable] in it when the database is why, errConflict when
// another transaction is.
func inTx[Tx any](ctx context.Context, s Store[Tx], first statement, fn func(tx Tx, found []string) error) error {
	tx, found, err := begin(ctx, s, first)
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	if err == nil {
		err = fn(tx, found)
	}
	if err != nil {
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

// begin begins a transaction with a statement. Without ErrUnavailable in its error there is a transaction to end.
func begin[Tx any](ctx context.Context, s Store[Tx], first statement) (tx Tx, found []string, err error) {
	if o, able := s.(opener[Tx]); able && first.query != "" {
		return o.open(ctx, first)
	}
	if tx, err = s.Begin(ctx); err != nil {
		return tx, nil, unavailable("begin a transaction", err)
	}
	if first.query != "" {
		found, err = s.Query(ctx, tx, first.query, first.args...)
	}
	return tx, found, err
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
