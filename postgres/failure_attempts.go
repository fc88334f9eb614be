package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// Failing implements [relay.Attempts]. The records of events that are gone are looked for one by one: a join may be planned as a scan of the table.
func (f *failures) Failing(ctx context.Context, lanes []int32) ([]relay.Failing, error) {
	found, err := f.failing(ctx, fmt.Sprintf(`
WITH gone AS (
    DELETE FROM outbox.failure f WHERE f.source = $1 AND f.lane = ANY ($2::integer[])
      AND (SELECT true FROM %s t WHERE t.id = f.id AND t.event_id = f.event_id AND t.published_at IS NULL LIMIT 1) IS NULL
    RETURNING f.id, f.event_id
)
SELECT topic, partition_key, id, event_id, attempts - crashes, crashes, next_attempt_at IS NOT NULL,
    coalesce(greatest(0, extract(epoch FROM next_attempt_at - clock_timestamp()) * 1000000), 0)::bigint
FROM outbox.failure f WHERE source = $1 AND lane = ANY ($2::integer[])
  AND NOT EXISTS (SELECT FROM gone g WHERE g.id = f.id AND g.event_id = f.event_id)
ORDER BY id`, f.row.Table.SQL()), f.row.ID, lanes)
	if err != nil {
		return nil, fmt.Errorf("read what has failed of %s: %w", f.row.Table, err)
	}
	return found, nil
}

func (f *failures) failing(ctx context.Context, sql string, args ...any) ([]relay.Failing, error) {
	var found []relay.Failing
	err := f.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, scanFailing)
		return err
	})
	return found, err
}

func scanFailing(row pgx.CollectableRow) (relay.Failing, error) {
	var r relay.Failing
	var us int64
	err := row.Scan(&r.Topic, &r.PartitionKey, &r.Event.ID, &r.Event.EventID, &r.Attempts, &r.Crashes, &r.Waits, &us)
	r.In = pg.Microseconds(us)
	return r, err
}

// dueAtOnce bounds what one call gives.
const dueAtOnce = 1000

// Due implements [relay.Attempts]. It relies on the index failure_due. What it returns is not due any more: an event is tried once for each time that it is due,
// whatever becomes of the relay.
func (f *failures) Due(ctx context.Context, claim relay.Claim) ([]relay.Failing, error) {
	found, err := f.failing(ctx, `
WITH due AS MATERIALIZED (
    SELECT f.id, f.event_id FROM outbox.failure f
    JOIN unnest($3::integer[], $4::bigint[]) c(lane, epoch) ON c.lane = f.lane
    JOIN outbox.lane l ON l.source = f.source AND l.lane = f.lane AND l.owner = $2 AND l.epoch = c.epoch
    WHERE f.source = $1 AND f.next_attempt_at <= clock_timestamp() ORDER BY f.next_attempt_at LIMIT $5 FOR UPDATE OF f SKIP LOCKED
)
UPDATE outbox.failure f SET next_attempt_at = NULL FROM due WHERE f.source = $1 AND f.id = due.id AND f.event_id = due.event_id
RETURNING f.topic, f.partition_key, f.id, f.event_id, f.attempts - f.crashes, f.crashes, false, 0::bigint`,
		f.row.ID, claim.Owner.ID, claim.Lanes, claim.Epochs, dueAtOnce)
	if err != nil {
		return nil, fmt.Errorf("look for events of %s that are to be tried again: %w", f.row.Table, err)
	}
	return found, nil
}

// retrySQL writes failed attempts down, after which others are made. Of events that are not unpublished any more it writes nothing; it returns the others.
// It relies on the primary keys of the table and of failure.
//
//	$1 source; then arrays, an element for each event: $2 id, $3 event_id, $4 topic, $5 key, $6 lane, $7 attempts, $8 error, $9 microseconds until the next attempt
const retrySQL = `
WITH waiting AS MATERIALIZED (
    SELECT w.* FROM unnest($2::bigint[], $3::text[]::uuid[], $4::text[], $5::text[], $6::integer[], $7::integer[], $8::text[], $9::bigint[])
        WITH ORDINALITY w(id, event_id, topic, key, lane, attempts, error, wait, n) CROSS JOIN LATERAL (
        SELECT 1 FROM %s t WHERE t.id = w.id AND (t.event_id = w.event_id) IS TRUE AND t.published_at IS NULL OFFSET 0) t
), failed AS (
    INSERT INTO outbox.failure AS f (source, id, event_id, topic, partition_key, lane, attempts, first_error, last_error, next_attempt_at)
    SELECT $1, id, event_id, topic, key, lane, attempts, error, error, clock_timestamp() + wait * interval '1 microsecond' FROM waiting ORDER BY id` + onRecord + `
)
SELECT n FROM waiting`

// Retry implements [relay.Attempts]. It is one transaction, whatever the number of events.
func (f *failures) Retry(ctx context.Context, claim relay.Claim, failed []relay.RetriedEvent) (gone []relay.Key, err error) {
	keys := make([]relay.Key, len(failed))
	for i, e := range failed {
		keys[i] = e.Key
	}
	r := &retrying{failures: f}
	write := halves[relay.RetriedEvent]{do: r.retry, tell: refusesRow, take: r.take}
	err = pg.InTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) error {
		if err := holdLanes(ctx, tx, f.row, claim, keys); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, plainPlan); err != nil {
			return fmt.Errorf("set the plan: %w", err)
		}
		return write.attempt(ctx, tx, failed)
	})
	if err == nil {
		err = r.refused.err()
	}
	if err != nil {
		return nil, fmt.Errorf("write down %d failed events of %s: %w", len(failed), f.row.Table, err)
	}
	return r.gone, nil
}

// retrying is one transaction that writes failed attempts down.
type retrying struct {
	*failures
	// gone are the keys whose events are not unpublished any more.
	gone []relay.Key
	// refused are the events of which the server refuses to write it down.
	refused refusedRows
}

// take notes the event that is refused.
func (r *retrying) take(events []relay.RetriedEvent, err error) bool {
	if len(events) == 1 {
		r.refused.add(fmt.Errorf("that of topic %s and event %d: %w", events[0].Topic, events[0].Event.ID, err))
	}
	return len(events) == 1
}

// retry runs retrySQL. Ids of events are sent as text: a pool that prepares nothing cannot send others.
func (r *retrying) retry(ctx context.Context, tx pgx.Tx, failed []relay.RetriedEvent) error {
	n := len(failed)
	ids, eventIDs, topics, keys := make([]int64, n), make([]string, n), make([]string, n), make([]string, n)
	lanes, attempts, errs, waits := make([]int32, n), make([]int32, n), make([]string, n), make([]int64, n)
	waiting := make([]bool, n)
	for i, e := range failed {
		ids[i], eventIDs[i], topics[i], keys[i] = e.Event.ID, e.Event.EventID.String(), e.Topic, e.PartitionKey
		lanes[i], attempts[i] = relay.Lane(e.PartitionKey, r.row.Lanes), attemptsOf(e.Code)
		errs[i], waits[i] = errorOf(r.row, e.Code, e.Reason), e.Wait.Microseconds()
	}
	err := eachNumber(ctx, tx, func(i int) { waiting[i] = true }, fmt.Sprintf(retrySQL, r.row.Table.SQL()), r.row.ID, ids, eventIDs, topics, keys, lanes, attempts, errs, waits)
	if err != nil {
		return err
	}
	for i, waits := range waiting {
		if !waits {
			r.gone = append(r.gone, failed[i].Key)
		}
	}
	return nil
}

// onRecord adds to a record of outbox.failure AS f what an attempt's row says. One of no attempts is of a crash loop: it is told by its crashes, which are counted already;
// they begin anew, for an operator who tries once more. The key may be another one by now: somebody has corrected the row.
const onRecord = `
ON CONFLICT (source, id, event_id) DO UPDATE SET
    topic = excluded.topic, partition_key = excluded.partition_key, lane = excluded.lane,
    attempts = f.attempts + excluded.attempts, crashes = CASE WHEN excluded.attempts = 0 THEN 0 ELSE f.crashes END,
    first_error = CASE WHEN f.attempts > f.crashes THEN coalesce(f.first_error, excluded.first_error) ELSE excluded.first_error END,
    last_error = excluded.last_error, last_at = clock_timestamp(), next_attempt_at = excluded.next_attempt_at`

// attemptsOf is how many attempts a failure of the code adds to the record; see onRecord.
func attemptsOf(code string) int32 {
	if code == relay.CodeCrashLoop {
		return 0
	}
	return 1
}

// errorOf is how a failure is kept in outbox.failure.
func errorOf(row pg.Source, code, reason string) string { return row.Storable(code + ": " + reason) }

// beginError is the error of an event whose relay has not come back.
const beginError = "the relay ended while this event was being published"

// Begin implements [relay.Attempts].
func (f *failures) Begin(ctx context.Context, claim relay.Claim, events []*relay.Event) error {
	begun := 0
	refs := make([]relay.Ref, len(events))
	topics, keys, lanes := make([]string, len(events)), make([]string, len(events)), make([]int32, len(events))
	for i, e := range events {
		refs[i], topics[i], keys[i], lanes[i] = e.Ref(), e.Topic, e.PartitionKey, relay.Lane(e.PartitionKey, f.row.Lanes)
	}
	ids, eventIDs := columnsOf(refs)
	err := f.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, `
WITH held AS MATERIALIZED (
    SELECT l.lane FROM outbox.lane l JOIN unnest($3::integer[], $4::bigint[]) c(lane, epoch) ON c.lane = l.lane
    WHERE l.source = $1 AND l.owner = $2 AND l.epoch = c.epoch ORDER BY l.lane FOR KEY SHARE OF l
)
INSERT INTO outbox.failure AS f (source, id, event_id, topic, partition_key, lane, attempts, crashes, first_error, last_error)
SELECT $1, e.id, e.event_id, e.topic, e.partition_key, e.lane, 1, 1, $10, $10
FROM unnest($5::bigint[], $6::uuid[], $7::text[], $8::text[], $9::integer[]) e(id, event_id, topic, partition_key, lane) JOIN held USING (lane)
ON CONFLICT (source, id, event_id) DO UPDATE SET
    topic = excluded.topic, partition_key = excluded.partition_key, lane = excluded.lane,
    attempts = f.attempts + 1, crashes = f.crashes + 1, last_at = clock_timestamp(),
    last_error = CASE WHEN f.attempts > f.crashes THEN f.last_error ELSE excluded.last_error END`,
			f.row.ID, claim.Owner.ID, claim.Lanes, claim.Epochs, ids, eventIDs, topics, keys, lanes, beginError)
		begun = int(tag.RowsAffected())
		return err
	})
	if err == nil && begun < len(events) {
		err = relay.ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("write down that %d events of %s are about to be published: %w", len(events), f.row.Table, err)
	}
	return nil
}

// Clear implements [relay.Attempts].
func (f *failures) Clear(ctx context.Context, published, survived []relay.Ref) error {
	ids, eventIDs := columnsOf(append(published[:len(published):len(published)], survived...))
	done := make([]bool, len(ids))
	for i := range published {
		done[i] = true
	}
	err := f.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
WITH a AS MATERIALIZED (SELECT * FROM unnest($2::bigint[], $3::uuid[], $4::boolean[]) a(id, event_id, published)),
gone AS (
    DELETE FROM outbox.failure f USING a
    WHERE f.source = $1 AND f.id = a.id AND f.event_id = a.event_id AND (a.published OR f.attempts <= f.crashes)
)
UPDATE outbox.failure f SET attempts = f.attempts - f.crashes, crashes = 0 FROM a
WHERE f.source = $1 AND f.id = a.id AND f.event_id = a.event_id AND NOT a.published AND f.crashes > 0 AND f.attempts > f.crashes`,
			f.row.ID, ids, eventIDs, done)
		return err
	})
	if err != nil {
		return fmt.Errorf("forget the attempts with %d events of %s: %w", len(ids), f.row.Table, err)
	}
	return nil
}

// columnsOf returns ids and event ids.
func columnsOf(refs []relay.Ref) (ids []int64, eventIDs []uuid.UUID) {
	ids, eventIDs = make([]int64, len(refs)), make([]uuid.UUID, len(refs))
	for i, r := range refs {
		ids[i], eventIDs[i] = r.ID, r.EventID
	}
	return ids, eventIDs
}
