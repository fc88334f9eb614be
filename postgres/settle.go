package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/relay"
)

// settler writes down that events are in Kafka. It looks at no lease: an event that was acknowledged is in Kafka, whoever sent it.
type settler struct {
	db  runner
	row sourceRow
	sql string
	// begun tells that the source's first publication is written down.
	begun bool
}

// plainPlan holds the planner to one index lookup for each row. Without it a plan made while the table was small, or before its first
// ANALYZE, reads the whole table at each settle, and is kept. It lasts as long as the transaction, so a pooler does not mind.
const plainPlan = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('enable_bitmapscan', 'off', true)`

// The pair is compared, and not the id alone: an id may be issued again after a crash or a RESTART. IS TRUE keeps the planner from
// looking up by event_id: random ones are spread over an index that fits in no cache, ids are next to each other.
const (
	markSQL = `UPDATE %s t SET published_at = now() FROM unnest($1::bigint[], $2::uuid[]) a(id, event_id)
WHERE t.id = a.id AND (t.event_id = a.event_id) IS TRUE AND t.published_at IS NULL`
	deleteSQL = `DELETE FROM %s t USING unnest($1::bigint[], $2::uuid[]) a(id, event_id)
WHERE t.id = a.id AND (t.event_id = a.event_id) IS TRUE AND t.published_at IS NULL`
	beginSQL = `UPDATE outbox.source SET first_published_at = now() WHERE id = $1 AND first_published_at IS NULL`
)

func newSettler(db runner, row sourceRow, mode SettleMode) *settler {
	sql := markSQL
	if mode == Delete {
		sql = deleteSQL
	}
	return &settler{db: db, row: row, sql: fmt.Sprintf(sql, row.table.sql()), begun: !row.firstPublished.IsZero()}
}

// settleTries is how often a settle that lost against another transaction is tried; a settle given up is a batch sent twice.
const settleTries = 5

// Settle implements [relay.Settler]. A call is one round trip and one transaction, whatever the number of rows.
func (s *settler) Settle(ctx context.Context, refs []relay.Ref) (int, error) {
	if len(refs) == 0 {
		return 0, nil
	}
	ids, eventIDs := inOrder(refs)
	var settled int
	var err error
	for range settleTries {
		settled, err = s.settle(ctx, ids, eventIDs)
		if !isConflict(err) {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("settle %d events of %s: %w", len(refs), s.row.table, err)
	}
	return settled, nil
}

// inOrder splits the refs, sorted by id: everybody who locks many rows of the table goes by id, so that nobody waits in a circle.
func inOrder(refs []relay.Ref) (ids []int64, eventIDs []uuid.UUID) {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b relay.Ref) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	ids, eventIDs = make([]int64, len(refs)), make([]uuid.UUID, len(refs))
	for i, r := range refs {
		ids[i], eventIDs[i] = r.ID, r.EventID
	}
	return ids, eventIDs
}

func (s *settler) settle(ctx context.Context, ids []int64, eventIDs []uuid.UUID) (settled int, err error) {
	err = s.db.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var batch pgx.Batch
		batch.Queue(plainPlan)
		batch.Queue(s.sql, ids, eventIDs)
		if !s.begun {
			batch.Queue(beginSQL, s.row.id)
		}
		results := conn.SendBatch(ctx, &batch)
		if _, err := results.Exec(); err != nil {
			return firstError(err, results.Close())
		}
		tag, err := results.Exec()
		if err = firstError(err, results.Close()); err != nil {
			return err
		}
		settled, s.begun = int(tag.RowsAffected()), true
		return nil
	})
	return settled, err
}

// firstError returns the first that is not nil: closing a batch reports what its unread part met, and only then has it committed.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
