package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/outbox-relay/outbox/operate"
)

// No index knows when an event was created, but ids are drawn in the order of time, nearly: a transaction draws them some time after its start, which
// created_at is. So the ids of a time are found by halving, and a list of settled events by time begins and ends there, with a margin for
// transactions that were open for long. What is unpublished or dead is looked through without that: mostly there is little of it.

// timeMargin is how many ids more are looked at on each side.
const timeMargin = 20_000

// narrowed is the query with the ids of its time, and what that leaves out; the query itself where the whole is not worth it.
func (l survey) narrowed(ctx context.Context, q operate.EventQuery) (operate.EventQuery, string, error) {
	from, until, err := l.times(ctx, q)
	if err != nil || from.IsZero() && until.IsZero() {
		return q, "", err
	}
	var first, last int64
	table := l.row.Table.SQL()
	err = l.tx.QueryRow(ctx, fmt.Sprintf("SELECT coalesce((SELECT id FROM %[1]s ORDER BY id LIMIT 1), 0), coalesce((SELECT id FROM %[1]s ORDER BY id DESC LIMIT 1), 0)", table)).Scan(&first, &last)
	if err != nil || last-first <= 2*timeMargin {
		return q, "", err
	}
	narrow := q
	if !from.IsZero() {
		id, err := l.firstSince(ctx, from, first, last)
		if err != nil {
			return q, "", err
		}
		narrow.MinID = max(q.MinID, id-timeMargin)
	}
	if !until.IsZero() {
		id, err := l.firstSince(ctx, until, first, last)
		if err != nil {
			return q, "", err
		}
		narrow.MaxID = id + timeMargin
		if q.MaxID != 0 {
			narrow.MaxID = min(q.MaxID, narrow.MaxID)
		}
	}
	return narrow, fmt.Sprintf("settled events of that time were looked for %s, %s more on each side than where the ids of that time are; one whose transaction was open for longer may be missing",
		idRange(max(first, narrow.MinID), narrow.MaxID, last), "20,000 ids"), nil
}

func idRange(from, to, last int64) string {
	if to == 0 || to > last {
		to = last
	}
	return fmt.Sprintf("from id %d to %d", from, to)
}

// times are the bounds of created_at.
func (l survey) times(ctx context.Context, q operate.EventQuery) (from, until time.Time, err error) {
	from, until = q.CreatedFrom, q.CreatedUntil
	if q.MinAge == 0 && q.MaxAge == 0 {
		return from, until, nil
	}
	var now time.Time
	if err := l.tx.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
		return from, until, err
	}
	if since := now.Add(-q.MaxAge); q.MaxAge > 0 && since.After(from) {
		from = since
	}
	if before := now.Add(-q.MinAge); q.MinAge > 0 && (until.IsZero() || before.Before(until)) {
		until = before
	}
	return from, until, nil
}

// firstSince finds the first id of a time, by halving: some 25 looks at the primary key in one statement.
func (l survey) firstSince(ctx context.Context, t time.Time, first, last int64) (id int64, err error) {
	err = l.tx.QueryRow(ctx, fmt.Sprintf(`
WITH RECURSIVE b(low, high) AS (
    SELECT $2::bigint, $3::bigint + 1
    UNION ALL
    SELECT CASE WHEN r.created_at < $1::timestamptz THEN r.id + 1 ELSE b.low END, CASE WHEN r.created_at < $1::timestamptz THEN b.high ELSE h.middle END
    FROM b, LATERAL (SELECT b.low + (b.high - b.low) / 2 AS middle OFFSET 0) h,
        LATERAL (SELECT e.id, e.created_at FROM %s e WHERE e.id >= h.middle ORDER BY e.id LIMIT 1) r
    WHERE b.low < b.high
)
SELECT low FROM b ORDER BY high - low LIMIT 1`, l.row.Table.SQL()), t, first, last).Scan(&id)
	return id, err
}
