package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// pendingSQL are the oldest unpublished rows of the table %s, at most $2, over the partial index, each with whether its key is parked
// in the source $1, or a pause keeps it.
const pendingSQL = `
WITH pending AS MATERIALIZED (
    SELECT id, coalesce(topic::text, '') AS topic, coalesce(partition_key::text, '') AS partition_key, created_at FROM %s WHERE published_at IS NULL ORDER BY id LIMIT $2
), waiting AS (
    SELECT p.id, p.topic, k.source IS NOT NULL OR q.source IS NOT NULL OR p.topic = ANY (ARRAY(SELECT topic FROM outbox.pause WHERE source = $1 AND scope = 'topic'))
        OR EXISTS (SELECT FROM outbox.pause WHERE source = $1 AND scope = 'source') AS kept,
        CASE WHEN isfinite(p.created_at) THEN p.created_at END AS created_at
    FROM pending p LEFT JOIN outbox.parked_key k ON k.source = $1 AND k.topic = p.topic AND k.partition_key = p.partition_key
    LEFT JOIN outbox.pause q ON q.source = $1 AND q.scope = 'key' AND q.topic = p.topic AND q.partition_key = p.partition_key
)`

// oldestAge is the age of the oldest of the waiting rows, or of those for which a condition holds, in microseconds: computed once, not for each row, which would take
// longer than to read them.
func oldestAge(filter string) string {
	// Of NULLs, greatest and least return what is none.
	return "(greatest(0, least(coalesce(extract(epoch FROM now() - min(created_at)" + filter + "), 0), 9e9)) * 1000000)::bigint"
}

// notKept leaves out what a parked key or a pause keeps.
const notKept = " FILTER (WHERE NOT kept)"

// census is what is unpublished, counted in one pass.
type census struct {
	topics []TopicStatus
	// keys are the numbers of events of keys that are paused by themselves.
	keys  map[relay.Key]int64
	limit int64
	total Backlog
}

// takeCensus reads the unpublished events once, limit and one more of them at most: for each topic, and for each paused key.
func takeCensus(ctx context.Context, tx pgx.Tx, row pg.Source, limit int64) (census, error) {
	w := census{keys: map[relay.Key]int64{}, limit: limit}
	rows, err := tx.Query(ctx, fmt.Sprintf(pendingSQL+`, parked AS (
    SELECT topic, count(*) AS keys FROM outbox.parked_key WHERE source = $1 GROUP BY topic
), counts AS (
    SELECT topic, count(*) AS pending, `+oldestAge("")+` AS oldest, `+oldestAge(notKept)+` AS eligible, max(id) AS last FROM waiting GROUP BY topic
), stopped AS (
    SELECT topic, count(*) AS keys FROM outbox.pause WHERE source = $1 AND scope = 'key' GROUP BY topic
), held AS (
    SELECT DISTINCT ON (h.topic) h.topic, h.code, h.reason, h.held_at
    FROM outbox.held_topic h JOIN outbox.relay r ON r.source = h.source AND r.owner = h.owner
    WHERE h.source = $1 AND r.expires_at > clock_timestamp() ORDER BY h.topic, h.held_at
)
SELECT false, topic, '', coalesce(pending, 0), coalesce(oldest, 0), coalesce(eligible, 0), coalesce(parked.keys, 0), coalesce(h.code, ''), coalesce(h.reason, ''), h.held_at, coalesce(s.keys, 0), last
FROM counts FULL JOIN parked USING (topic) FULL JOIN held h USING (topic) LEFT JOIN stopped s USING (topic)
UNION ALL
SELECT true, p.topic, p.partition_key, count(*), 0, 0, 0, '', '', NULL, 0, NULL FROM pending p
JOIN outbox.pause q ON q.source = $1 AND q.scope = 'key' AND q.topic = p.topic AND q.partition_key = p.partition_key GROUP BY p.topic, p.partition_key
ORDER BY 1, 2`, row.Table.SQL()), row.ID, limit+1)
	if err != nil {
		return w, fmt.Errorf("count by topic: %w", err)
	}
	var t TopicStatus
	var ofKey bool
	var key string
	var oldest, eligible int64
	var held *time.Time
	var last, newest *int64
	extra := -1
	_, err = pgx.ForEachRow(rows, []any{&ofKey, &t.Topic, &key, &t.Pending, &oldest, &eligible, &t.ParkedKeys, &t.HeldCode, &t.HeldReason, &held, &t.PausedKeys, &last}, func() error {
		if ofKey {
			w.keys[relay.Key{Topic: t.Topic, PartitionKey: key}] = t.Pending
			return nil
		}
		t.HeldSince, t.OldestAge, t.EligibleAge = timeOrZero(held), pg.Microseconds(oldest), pg.Microseconds(eligible)
		if last != nil && (newest == nil || *last > *newest) {
			id := *last
			newest, extra = &id, len(w.topics)
		}
		w.add(t)
		return nil
	})
	if err != nil {
		return w, fmt.Errorf("count by topic: %w", err)
	}
	if w.total.cap(limit); w.total.PendingCapped {
		// The one too many is the newest.
		w.topics[extra].Pending--
		for i := range w.topics {
			w.topics[i].PendingCapped = true
		}
	}
	return w, nil
}

func (w *census) add(t TopicStatus) {
	w.topics = append(w.topics, t)
	w.total.Pending += t.Pending
	w.total.OldestAge, w.total.EligibleAge = max(w.total.OldestAge, t.OldestAge), max(w.total.EligibleAge, t.EligibleAge)
}

// backlog adds to the total what the events do not tell.
func (w *census) backlog(ctx context.Context, tx pgx.Tx, row pg.Source) (Backlog, error) {
	b := w.total
	var parked int64
	err := tx.QueryRow(ctx, "SELECT "+besideSQL("$2"), row.ID, row.Table.SQL()).Scan(&b.ParkedKeys, &parked, &b.Indexed, &b.Paused.Source, &b.Paused.Topics, &b.Paused.Keys)
	if err != nil {
		return Backlog{}, fmt.Errorf("count what is parked and paused: %w", err)
	}
	b.ParkedAge = pg.Microseconds(parked)
	return b, nil
}

// pauses lists the first hundred pauses, with what each keeps.
func (w *census) pauses(ctx context.Context, tx pgx.Tx, row pg.Source) ([]PauseStatus, error) {
	rows, err := tx.Query(ctx, fmt.Sprintf(`
SELECT scope, topic, partition_key, paused_by, reason, paused_at FROM outbox.pause p WHERE source = $1 %s LIMIT %d`, pausesOrder, pausesShown), row.ID)
	if err != nil {
		return nil, fmt.Errorf("list what is paused: %w", err)
	}
	topics := make(map[string]int64, len(w.topics))
	for _, t := range w.topics {
		topics[t.Topic] = t.Pending
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (p PauseStatus, err error) {
		err = r.Scan(&p.Scope, &p.Topic, &p.PartitionKey, &p.By, &p.Reason, &p.At)
		switch p.Scope {
		case relay.PauseSource:
			p.Pending = w.total.Pending
		case relay.PauseTopic:
			p.Pending = topics[p.Topic]
		case relay.PauseKey:
			p.Pending = w.keys[relay.Key{Topic: p.Topic, PartitionKey: p.PartitionKey}]
		}
		p.PendingCapped = w.total.PendingCapped
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("list what is paused: %w", err)
	}
	return list, nil
}
