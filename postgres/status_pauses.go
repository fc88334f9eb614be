package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// pausesShown bounds how many pauses are told one by one: a script may have paused thousands of keys.
const pausesShown = 100

// PauseStatus is something that an operator has paused, with what it keeps.
type PauseStatus struct {
	relay.Pause
	// Pending is how many unpublished events it keeps, within the limit of the whole: PendingCapped tells that there may be more. What two pauses keep counts for both.
	Pending       int64
	PendingCapped bool
}

// Paused is what is paused of a source, counted and listed.
type Paused struct {
	// Source tells that all of the source is paused; Topics and Keys are how many of them are, each by a pause of its own.
	Source       bool
	Topics, Keys int64
}

// Any tells that something is paused.
func (p Paused) Any() bool { return p.Source || p.Topics > 0 || p.Keys > 0 }

// Count is how many pauses there are.
func (p Paused) Count() int64 {
	n := p.Topics + p.Keys
	if p.Source {
		n++
	}
	return n
}

// Keeping returns the pauses that keep unpublished events: first the source's, then topics, then keys, each kind with the oldest pause first, and 100 at most.
// more is how many others keep some. It counts to 1,000,000 events and gives up after 10 s.
func (o *Operator) Keeping(ctx context.Context) (pauses []PauseStatus, more int64, err error) {
	row, err := o.db.Source(ctx)
	if err != nil {
		return nil, 0, err
	}
	type found struct {
		pauses []PauseStatus
		more   int64
	}
	f, err := pg.Glance(ctx, o.db, row, statusTimeout, func(ctx context.Context, tx pgx.Tx) (f found, err error) {
		f.pauses, f.more, err = readKeeping(ctx, tx, row, statusLimit)
		return f, err
	})
	return f.pauses, f.more, err
}

// pausedSQL are the columns of a [Paused] of the source $1.
const pausedSQL = `EXISTS (SELECT FROM outbox.pause WHERE source = $1 AND scope = 'source'),
    (SELECT count(*) FROM outbox.pause WHERE source = $1 AND scope = 'topic'),
    (SELECT count(*) FROM outbox.pause WHERE source = $1 AND scope = 'key')`

func readPaused(ctx context.Context, tx pgx.Tx, row pg.Source) (p Paused, err error) {
	if err = tx.QueryRow(ctx, "SELECT "+pausedSQL, row.ID).Scan(&p.Source, &p.Topics, &p.Keys); err != nil {
		err = fmt.Errorf("count what is paused: %w", err)
	}
	return p, err
}

// pausesOrder is the order of pauses p: the source's, topics, keys, each with the oldest first.
const pausesOrder = "ORDER BY CASE p.scope WHEN 'source' THEN 1 WHEN 'topic' THEN 2 ELSE 3 END, p.paused_at, p.topic, p.key_hash"

// readKeeping lists the pauses that keep something, with what each keeps; of those beyond the first it tells how many there are. It counts nothing when nothing is paused.
func readKeeping(ctx context.Context, tx pgx.Tx, row pg.Source, limit int64) (pauses []PauseStatus, more int64, err error) {
	if p, err := readPaused(ctx, tx, row); err != nil || !p.Any() {
		return nil, 0, err
	}
	rows, err := tx.Query(ctx, fmt.Sprintf(`
WITH pending AS MATERIALIZED (
    SELECT coalesce(topic::text, '') AS topic, coalesce(partition_key::text, '') AS partition_key FROM %s WHERE published_at IS NULL ORDER BY id LIMIT $2
), topics AS (
    SELECT topic, count(*) AS n FROM pending GROUP BY topic
), keys AS (
    SELECT w.topic, w.partition_key, count(*) AS n FROM pending w
    JOIN outbox.pause q ON q.source = $1 AND q.scope = 'key' AND q.topic = w.topic AND q.partition_key = w.partition_key GROUP BY w.topic, w.partition_key
), kept AS (
    SELECT p.*, CASE p.scope WHEN 'source' THEN (SELECT count(*) FROM pending) ELSE coalesce(t.n, k.n, 0) END AS n
    FROM outbox.pause p LEFT JOIN topics t ON p.scope = 'topic' AND t.topic = p.topic
    LEFT JOIN keys k ON p.scope = 'key' AND k.topic = p.topic AND k.partition_key = p.partition_key WHERE p.source = $1
)
SELECT scope, topic, partition_key, paused_by, reason, paused_at, least(n, $2 - 1), (SELECT count(*) FROM pending) >= $2, count(*) OVER () FROM kept p WHERE n > 0
%s LIMIT %d`, row.Table.SQL(), pausesOrder, pausesShown), row.ID, limit+1)
	if err != nil {
		return nil, 0, fmt.Errorf("count what pauses keep: %w", err)
	}
	var all int64
	pauses, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (p PauseStatus, err error) {
		err = r.Scan(&p.Scope, &p.Topic, &p.PartitionKey, &p.By, &p.Reason, &p.At, &p.Pending, &p.PendingCapped, &all)
		return p, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("count what pauses keep: %w", err)
	}
	return pauses, all - int64(len(pauses)), nil
}
