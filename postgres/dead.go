package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// death is an event that is given up.
type death struct {
	key relay.Key
	ref relay.Ref
	// code is a stable name of why, reason says it to people; both are kept with the event.
	code, reason string
	// by is who gives it up.
	by string
	// attempts are added to those that are written down for the event.
	attempts int32
	// letter is where it is in a dead-letter topic; nil when it is in none.
	letter *relay.Place
}

// burial is what became of a death.
type burial struct {
	// found tells that the row was there to be moved, and moved that the event is in outbox.dead_event now. A row that is found and not moved is kept by the table: by a
	// trigger, or row-level security.
	found, moved bool
	// released tells that its key, which it had stopped, or which waited for its next attempt, waits for it no longer.
	released bool
}

// burySQL moves events whole: to_jsonb keeps columns that this program does not know. A row that somebody else has locked stays, as does one that is
// published or of another key; one that is locked here stays unpublished until it is deleted. It relies on the primary keys of the table, of parked_key and of failure.
//
//	$1 source; then arrays, an element for each event: $2 id, $3 event_id, $4 topic, $5 key, $6 hash of both, $7 lane, $8 code, $9 reason,
//	$10 by, $11 attempts; $12 dead-letter topic, '' for none, $13 its partition, $14 the offset there, negative when nobody knows
const burySQL = `
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest($2::bigint[], $3::text[]::uuid[], $4::text[], $5::text[], $6::bytea[], $7::integer[], $8::text[], $9::text[], $10::text[], $11::integer[],
        $12::text[], $13::integer[], $14::bigint[]) WITH ORDINALITY w(id, event_id, topic, key, hash, lane, code, reason, died_by, attempts, letter, part, place, n)
    ORDER BY id
), target AS MATERIALIZED (
    SELECT w.*,
        (SELECT f.attempts - f.crashes FROM outbox.failure f WHERE f.source = $1 AND f.id = w.id AND f.event_id = w.event_id) AS before,
        (SELECT p.code || ': ' || p.reason FROM outbox.parked_key p
         WHERE p.source = $1 AND p.key_hash = w.hash AND p.id = w.id AND p.event_id = w.event_id) AS stop,
        (SELECT f.next_attempt_at FROM outbox.failure f WHERE f.source = $1 AND f.id = w.id AND f.event_id = w.event_id) IS NOT NULL AS waits
    FROM wanted w CROSS JOIN LATERAL (
        SELECT 1 FROM %[1]s t WHERE t.id = w.id AND (t.event_id = w.event_id) IS TRUE
            AND t.published_at IS NULL AND (t.topic::text = w.topic AND t.partition_key::text = w.key) IS TRUE
        FOR UPDATE SKIP LOCKED) t
), gone AS (
    DELETE FROM %[1]s t USING target g WHERE t.id = g.id AND (t.event_id = g.event_id) IS TRUE
    RETURNING g.*, %[2]s AS event
), unparked AS (
    DELETE FROM outbox.parked_key p USING gone g
    WHERE g.stop IS NOT NULL AND p.source = $1 AND p.key_hash = g.hash AND p.id = g.id AND p.event_id = g.event_id
), forgotten AS (
    DELETE FROM outbox.failure f USING gone g WHERE f.source = $1 AND f.id = g.id AND f.event_id = g.event_id
), dead AS (
    INSERT INTO outbox.dead_event (source, id, event_id, topic, partition_key, lane, event, code, reason, attempts, died_by,
        letter_topic, letter_partition, letter_offset)
    SELECT $1, id, event_id, topic, key, lane, event, code, concat_ws('; its key was parked: ', nullif(reason, ''), stop), coalesce(before, 0) + attempts, died_by,
        nullif(letter, ''), CASE WHEN letter <> '' THEN part END, CASE WHEN letter <> '' AND place >= 0 THEN place END FROM gone
    ON CONFLICT (source, id, event_id) DO UPDATE SET
        event = excluded.event, code = excluded.code, reason = excluded.reason, attempts = excluded.attempts, died_by = excluded.died_by,
        died_at = clock_timestamp(), letter_topic = excluded.letter_topic, letter_partition = excluded.letter_partition, letter_offset = excluded.letter_offset
)
SELECT n, false, false FROM target UNION ALL SELECT n, true, waits OR stop IS NOT NULL FROM gone`

// bury moves unpublished events to outbox.dead_event in one statement, and says of each what became of it. A key that was parked because of one of them is so no
// longer. The transaction must keep out whoever could publish them, and run under plainPlan. No event may be given twice.
func bury(ctx context.Context, tx pgx.Tx, row pg.Source, deaths []death) ([]burial, error) {
	columns, err := tableColumns(ctx, tx, row.Table)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, fmt.Sprintf(burySQL, row.Table.SQL(), wholeRow(columns)), buryArgs(row, deaths)...)
	if err != nil {
		return nil, fmt.Errorf("move events to outbox.dead_event: %w", err)
	}
	became := make([]burial, len(deaths))
	var at int
	var moved, stopped bool
	_, err = pgx.ForEachRow(rows, []any{&at, &moved, &stopped}, func() error {
		became[at-1].found = true
		if moved {
			became[at-1].moved, became[at-1].released = true, stopped
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("move events to outbox.dead_event: %w", err)
	}
	return became, nil
}

// buryArgs are the parameters of burySQL. Ids of events are sent as text: a pool that prepares nothing cannot send others.
func buryArgs(row pg.Source, deaths []death) []any {
	n := len(deaths)
	ids, eventIDs := make([]int64, n), make([]string, n)
	topics, keys, hashes, lanes := make([]string, n), make([]string, n), make([][]byte, n), make([]int32, n)
	codes, reasons, by, attempts := make([]string, n), make([]string, n), make([]string, n), make([]int32, n)
	letters, parts, places := make([]string, n), make([]int32, n), make([]int64, n)
	for i, d := range deaths {
		ids[i], eventIDs[i] = d.ref.ID, d.ref.EventID.String()
		topics[i], keys[i], hashes[i], lanes[i] = d.key.Topic, d.key.PartitionKey, pg.KeyHash(d.key), relay.Lane(d.key.PartitionKey, row.Lanes)
		codes[i], reasons[i], by[i], attempts[i] = d.code, row.Storable(d.reason), row.Storable(d.by), d.attempts
		if d.letter != nil {
			letters[i], parts[i], places[i] = d.letter.Topic, d.letter.Partition, d.letter.Offset
		}
	}
	return []any{row.ID, ids, eventIDs, topics, keys, hashes, lanes, codes, reasons, by, attempts, letters, parts, places}
}
