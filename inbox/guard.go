package inbox

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
)

// Errors of a handler that would end its transaction, and of one that has done so.
var (
	errEnds  = errors.New("the handler ends its transaction: leave Commit and Rollback to the consumer; for a part that may fail use a savepoint")
	errEnded = errors.New("the handler has ended its transaction: leave Commit and Rollback to the consumer; for a part that may fail use a savepoint")
)

// guarder is what a [Store] may be as well: it knows, without a round trip, what a handler has done to the transaction that it was given.
type guarder[Tx any] interface {
	guard(tx Tx) (given Tx, check func() error)
}

// guard is for stores that do not know, too.
func guard[Tx any](s Store[Tx], tx Tx) (given Tx, check func() error) {
	if g, able := s.(guarder[Tx]); able {
		return g.guard(tx)
	}
	return tx, func() error { return nil }
}

// guarded is the transaction as a handler of pgx is given it: a commit in the middle of a batch would have events remembered that are not handled yet.
type guarded struct {
	pgx.Tx
	ends bool
}

// Commit commits nothing.
func (g *guarded) Commit(context.Context) error {
	g.ends = true
	return errEnds
}

// Rollback rolls nothing back yet.
func (g *guarded) Rollback(context.Context) error {
	g.ends = true
	return errEnds
}

func (pgxStore) guard(tx pgx.Tx) (pgx.Tx, func() error) {
	const idle = 'I'
	g := &guarded{Tx: tx}
	return g, func() error {
		switch conn := tx.Conn(); {
		case !conn.IsClosed() && conn.PgConn().TxStatus() == idle: // by a COMMIT that was a statement
			return errEnded
		case g.ends:
			return errEnds
		}
		return nil
	}
}

func (sqlStore) guard(tx *sql.Tx) (*sql.Tx, func() error) {
	return tx, func() error {
		// A statement of no database is refused at once, and before that a transaction that has ended.
		if errors.Is(tx.StmtContext(context.Background(), &sql.Stmt{}).Close(), sql.ErrTxDone) { //nolint:sqlclosecheck // it is closed in the same breath
			return errEnded
		}
		return nil
	}
}
