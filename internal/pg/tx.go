package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// InTx runs fn in a transaction of its own, and commits if fn gives no error. The isolation is named: a database's default may be
// stricter, and then waiting for a lock ends in an error instead of the newest row.
func InTx(ctx context.Context, db Runner, fn func(context.Context, pgx.Tx) error) error {
	return WithTx(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, fn)
}

// WithTx is InTx with other options.
func WithTx(ctx context.Context, db Runner, opts pgx.TxOptions, fn func(context.Context, pgx.Tx) error) error {
	return db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.BeginTx(ctx, opts)
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		if err := fn(ctx, tx); err != nil {
			Rollback(tx)
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		return nil
	})
}

// Rollback has its own deadline: the caller's context may be the reason for it. Its error is dropped, because a transaction that
// cannot be rolled back loses its connection, and so ends.
func Rollback(tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = tx.Rollback(ctx)
}

// Code returns the SQLSTATE of a server's error, "" for any other error. Texts are translated by lc_messages; codes are not.
func Code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// IsReadOnly tells that the server, or the session, takes no writes.
func IsReadOnly(err error) bool { return Code(err) == "25006" }

// IsConflict tells that the statement lost against another transaction (serialization failure, deadlock) and may be tried again.
func IsConflict(err error) bool { return Code(err) == "40001" || Code(err) == "40P01" }

// IsRefusal tells that the server refuses the statement for what it is (data, rights, constraints): trying it again gives the same.
func IsRefusal(err error) bool {
	switch c := Code(err); {
	case len(c) != 5:
		return false
	case c == "55000":
		return true
	default:
		return strings.Contains("22 23 42", c[:2])
	}
}

// Storable makes a text that PostgreSQL accepts and people can read: valid UTF-8, no NUL, bounded.
func Storable(s string) string {
	const limit = 4000
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}
