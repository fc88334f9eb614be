package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/outbox-relay/outbox"
)

// Process runs fn, once for each consumer and event id, within the caller's transaction of pgx. handled is false when the consumer has handled the event before;
// then fn is not run. While another transaction handles the same event, Process waits for what becomes of it.
//
// After an error, or a panic of fn, the caller must roll back. A caller that commits all the same has not handled the event: it comes again. Where a savepoint is
// rolled back that was made before Process, the event is not handled either. In a transaction that is repeatable read or serializable an event that another one
// has handled since it began is an error with SQLSTATE 40001, as usual there, and no repeat: make the transaction again.
func Process(ctx context.Context, tx outbox.Tx, consumer, eventID string, fn func(context.Context) error) (handled bool, err error) {
	return once(ctx, consumer, eventID, func(ctx context.Context, query string) (int64, error) {
		tag, err := tx.Exec(ctx, query, consumer, eventID)
		return tag.RowsAffected(), err
	}, func() error { return fn(ctx) })
}

// ProcessSQL is [Process] with a transaction of database/sql, for every driver for PostgreSQL.
func ProcessSQL(ctx context.Context, tx *sql.Tx, consumer, eventID string, fn func(context.Context) error) (handled bool, err error) {
	return once(ctx, consumer, eventID, func(ctx context.Context, query string) (int64, error) {
		result, err := tx.ExecContext(ctx, query, consumer, eventID)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	}, func() error { return fn(ctx) })
}

func once(ctx context.Context, consumer, eventID string, exec func(ctx context.Context, query string) (rows int64, err error), fn func() error) (handled bool, err error) {
	if err := errors.Join(checkName("consumer", consumer, MaxConsumerBytes), checkName("event id", eventID, MaxEventIDBytes)); err != nil {
		return false, fmt.Errorf("remember event: %w", err)
	}
	rows, err := exec(ctx, claimOneSQL)
	if err != nil {
		return false, rememberError(consumer, eventID, err)
	}
	if rows == 0 {
		return false, nil
	}
	defer func() {
		if handled {
			return
		}
		// fn has failed, panicked, or ended its goroutine: maybe because its context has ended, which says nothing of the caller's commit.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), proof)
		defer cancel()
		// A transaction that is broken already is of no use to a commit either.
		if _, failed := exec(ctx, unclaimSQL); failed != nil && sqlState(failed) != inFailedTransaction {
			err = errors.Join(err, fmt.Errorf("forget event %s of consumer %s, which was not handled: roll back: %w", eventID, consumer, failed))
		}
	}()
	if err := fn(); err != nil {
		return false, err
	}
	return true, nil
}

// inFailedTransaction is the SQLSTATE of a transaction that can only be rolled back.
const inFailedTransaction = "25P02"

func rememberError(consumer, eventID string, err error) error {
	return fmt.Errorf("remember event %s for consumer %s: %w", eventID, consumer, explain(err))
}
