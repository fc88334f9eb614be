package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

var (
	_ operate.InboxLookups = (*Store)(nil)
	_ operate.InboxKeeper  = (*Store)(nil)
)

const (
	// inboxCounted is how many remembered events of a consumer are counted at most.
	inboxCounted = 30_000
	// forgetAtOnce is how many rows one transaction deletes.
	forgetAtOnce = 5_000
	// forgetCounting is after how long a count is given up.
	forgetCounting = 5 * time.Second
)

// consumersSQL goes from one name to the next over the primary key: there may be many rows of few consumers. It relies on inbox_pkey and inbox_handled_at.
const consumersSQL = `
WITH RECURSIVE known AS (
    (SELECT consumer FROM outbox.inbox ORDER BY consumer LIMIT 1)
    UNION ALL
    SELECT (SELECT i.consumer FROM outbox.inbox i WHERE i.consumer > k.consumer ORDER BY i.consumer LIMIT 1) FROM known k WHERE k.consumer IS NOT NULL
), names AS (
    SELECT consumer FROM known WHERE consumer IS NOT NULL UNION SELECT consumer FROM outbox.inbox_failure
)
SELECT n.consumer,
    (SELECT count(*) FROM (SELECT FROM outbox.inbox i WHERE i.consumer = n.consumer LIMIT $1::bigint + 1) c),
    (SELECT i.handled_at FROM outbox.inbox i WHERE i.consumer = n.consumer ORDER BY i.handled_at LIMIT 1),
    (SELECT i.handled_at FROM outbox.inbox i WHERE i.consumer = n.consumer ORDER BY i.handled_at DESC LIMIT 1),
    (SELECT count(*) FROM outbox.inbox_failure f WHERE f.consumer = n.consumer),
    coalesce((SELECT max(f.attempts) FROM outbox.inbox_failure f WHERE f.consumer = n.consumer), 0),
    coalesce((SELECT f.last_error FROM outbox.inbox_failure f WHERE f.consumer = n.consumer ORDER BY f.last_failed_at DESC LIMIT 1), '')
FROM names n ORDER BY n.consumer`

// InboxConsumers implements [operate.InboxLookups].
func (s *Store) InboxConsumers(ctx context.Context, limit time.Duration) (found []operate.InboxConsumer, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = pg.InTx(ctx, s.db, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, consumersSQL, inboxCounted)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c operate.InboxConsumer, err error) {
			var oldest, newest *time.Time
			err = row.Scan(&c.Name, &c.Remembered, &oldest, &newest, &c.Failing, &c.Attempts, &c.LastError)
			c.Oldest, c.Newest = timeOrZero(oldest), timeOrZero(newest)
			c.Capped, c.Remembered = c.Remembered > inboxCounted, min(c.Remembered, inboxCounted)
			return c, err
		})
		return err
	})
	if err != nil {
		return nil, s.refusal(ctx, err, "list consumers", limit)
	}
	return found, nil
}

// failuresSQL sorts what is there: failures are few, those that are handled or sent on are gone.
const failuresSQL = `
SELECT f.consumer, f.topic, f.partition, f.record_offset, f.event_id, f.event_type, f.attempts, f.first_error, f.last_error, f.first_failed_at, f.last_failed_at
FROM outbox.inbox_failure f WHERE $1::text IS NULL OR f.consumer = $1::text
ORDER BY f.first_failed_at, f.consumer, f.topic, f.partition, f.record_offset LIMIT $2::bigint`

// InboxFailures implements [operate.InboxLookups].
func (s *Store) InboxFailures(ctx context.Context, limit time.Duration, q operate.InboxFailureQuery) (page operate.InboxFailurePage, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = pg.InTx(ctx, s.db, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, failuresSQL, q.Consumer, q.Limit+1)
		if err != nil {
			return err
		}
		page.Failures, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (f operate.InboxFailure, err error) {
			err = row.Scan(&f.Consumer, &f.Topic, &f.Partition, &f.Offset, &f.EventID, &f.EventType, &f.Attempts, &f.FirstError, &f.LastError, &f.FirstFailedAt, &f.LastFailedAt)
			f.FirstFailedAt, f.LastFailedAt = f.FirstFailedAt.UTC(), f.LastFailedAt.UTC()
			return f, err
		})
		return err
	})
	if err != nil {
		return operate.InboxFailurePage{}, s.refusal(ctx, err, "list records that fail", limit)
	}
	page.More = len(page.Failures) > q.Limit
	page.Failures = page.Failures[:min(len(page.Failures), q.Limit)]
	return page, nil
}

// forgetting is the condition of a request on the rows i of the inbox.
func forgetting(q *query, f operate.Forget) string {
	where := "i.consumer = " + q.param(f.Consumer, "text")
	if len(f.EventIDs) > 0 {
		where += " AND i.event_id = ANY (" + q.param(f.EventIDs, "text[]") + ")"
	}
	if !f.From.IsZero() {
		where += " AND i.handled_at >= " + q.param(f.From, "timestamptz")
	}
	if !f.Until.IsZero() {
		where += " AND i.handled_at < " + q.param(f.Until, "timestamptz")
	}
	return where
}

// CountForget implements [operate.InboxKeeper].
func (s *Store) CountForget(ctx context.Context, f operate.Forget) (n int64, capped bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, forgetCounting)
	defer cancel()
	var q query
	where := forgetting(&q, f)
	err = pg.InTx(ctx, s.db, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT count(*) FROM (SELECT FROM outbox.inbox i WHERE "+where+" LIMIT "+q.param(maxForgetCount+1, "bigint")+") c", q.args...).Scan(&n)
	})
	if err != nil {
		return 0, false, s.refusal(ctx, err, "count handled events", forgetCounting)
	}
	return min(n, maxForgetCount), n > maxForgetCount, nil
}

// maxForgetCount is how far a count goes.
const maxForgetCount = 1_000_000

// Forget implements [operate.InboxKeeper].
func (s *Store) Forget(ctx context.Context, f operate.Forget, progress func(int64)) (n int64, err error) {
	// What a consumer handles from now on is not meant, although nothing else bounds it.
	var began time.Time
	if err := s.db.Pool.QueryRow(ctx, "SELECT now()", pgx.QueryExecModeExec).Scan(&began); err != nil {
		return 0, s.refusal(ctx, err, "ask the database for its time", changeTimeout)
	}
	var q query
	where := forgetting(&q, f) + " AND i.handled_at <= " + q.param(began, "timestamptz")
	text := fmt.Sprintf(`DELETE FROM outbox.inbox WHERE ctid = ANY (ARRAY(
    SELECT i.ctid FROM outbox.inbox i WHERE %s ORDER BY i.handled_at LIMIT %s FOR UPDATE SKIP LOCKED))`, where, q.param(forgetAtOnce, "bigint"))
	for {
		var tag int64
		err := pg.InTx(ctx, s.db, func(ctx context.Context, tx pgx.Tx) error {
			done, err := tx.Exec(ctx, text, q.args...)
			tag = done.RowsAffected()
			return err
		})
		if err != nil {
			return n, s.refusal(ctx, err, "forget handled events", changeTimeout)
		}
		if n += tag; tag == 0 {
			return n, nil
		}
		if progress != nil {
			progress(n)
		}
	}
}
