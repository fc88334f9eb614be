//go:build integration && unix

package chaos_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/test/chaos/history"
)

// fate is what a writer knows of its transaction.
type fate int

const (
	rolledBack fate = iota
	committed
	// unknown: the connection broke between COMMIT and its answer. The table order_change says in the end what became of it.
	unknown
)

// transaction is what a writer has done, or tried.
type transaction struct {
	id     uuid.UUID
	events []history.Event
	// undone are events that were rolled back to a savepoint, whatever became of the whole.
	undone []history.Event
	fate   fate
}

// ledger is what the writers have written down.
type ledger struct {
	mu   sync.Mutex
	done []*transaction
}

func (l *ledger) add(tx *transaction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, tx)
}

// size is how many transactions there are that may have committed.
func (l *ledger) size() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, tx := range l.done {
		if tx.fate != rolledBack {
			n++
		}
	}
	return n
}

// String counts the transactions.
func (l *ledger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[fate]int{}
	for _, tx := range l.done {
		n[tx.fate]++
	}
	return fmt.Sprintf("%d transactions committed, %d rolled back or failed, %d with an unknown outcome", n[committed], n[rolledBack], n[unknown])
}

// balance compares the ledger with the rows that each committed transaction has left, and decides what was unknown.
func (l *ledger) balance(ctx context.Context, conn *pgx.Conn, h *history.History) error {
	rows, err := conn.Query(ctx, "SELECT id FROM order_change")
	if err != nil {
		return fmt.Errorf("read order_change: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return fmt.Errorf("read order_change: %w", err)
	}
	there := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		there[id] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, tx := range l.done {
		if tx.fate == committed && !there[tx.id] {
			h.Doubts = append(h.Doubts, fmt.Sprintf("transaction %s was committed, and the database does not have it", tx.id))
		}
		if tx.fate == rolledBack && there[tx.id] {
			h.Doubts = append(h.Doubts, fmt.Sprintf("transaction %s was rolled back, and the database has it", tx.id))
		}
		h.RolledBack = append(h.RolledBack, tx.undone...)
		if there[tx.id] {
			h.Committed = append(h.Committed, tx.events...)
		} else {
			h.RolledBack = append(h.RolledBack, tx.events...)
		}
	}
	return nil
}
