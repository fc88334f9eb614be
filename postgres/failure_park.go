package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// parkSQL parks keys, and writes the failed attempts down. Events that are not unpublished any more park nothing; it returns the others. Parking a key again for the same
// event keeps the time of the first. It relies on the primary keys of the table, of parked_key and of failure.
//
//	$1 source; then arrays, an element for each key: $2 id, $3 event_id, $4 topic, $5 key, $6 hash of both, $7 lane, $8 event type, $9 code, $10 reason,
//	$11 error, $12 attempts, $13 aggregate type, $14 aggregate id, both '' where only the key is parked
const parkSQL = `
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest($2::bigint[], $3::text[]::uuid[], $4::text[], $5::text[], $6::bytea[], $7::integer[], $8::text[], $9::text[], $10::text[], $11::text[],
        $12::integer[], $13::text[], $14::text[])
        WITH ORDINALITY w(id, event_id, topic, key, hash, lane, event_type, code, reason, error, attempts, aggregate_type, aggregate_id, n)
    ORDER BY id
), waiting AS MATERIALIZED (
    SELECT w.* FROM wanted w CROSS JOIN LATERAL (
        SELECT 1 FROM %s t WHERE t.id = w.id AND (t.event_id = w.event_id) IS TRUE AND t.published_at IS NULL OFFSET 0) t
), parked AS (
    INSERT INTO outbox.parked_key AS k (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason, aggregate_type, aggregate_id)
    SELECT $1, topic, hash, key, lane, id, event_id, event_type, code, reason, CASE WHEN scoped THEN aggregate_type END, CASE WHEN scoped THEN aggregate_id END
    FROM (SELECT *, aggregate_type <> '' OR aggregate_id <> '' AS scoped FROM waiting) w
    ON CONFLICT (source, key_hash) DO UPDATE SET
        id = excluded.id, event_id = excluded.event_id, event_type = excluded.event_type, code = excluded.code, reason = excluded.reason,
        aggregate_type = excluded.aggregate_type, aggregate_id = excluded.aggregate_id,
        parked_at = CASE WHEN k.event_id = excluded.event_id THEN k.parked_at ELSE excluded.parked_at END
), failed AS (
    INSERT INTO outbox.failure AS f (source, id, event_id, topic, partition_key, lane, attempts, first_error, last_error)
    SELECT $1, id, event_id, topic, key, lane, attempts, error, error FROM waiting WHERE code <> '` + relay.CodeAggregateParked + `'` + onRecord + `
)
SELECT n FROM waiting`

// Park implements [relay.Failures]. It is one transaction, whatever the number of keys.
func (f *failures) Park(ctx context.Context, claim relay.Claim, parked []relay.ParkedKey) (gone []relay.Key, err error) {
	keys := make([]relay.Key, len(parked))
	for i, p := range parked {
		keys[i] = p.Key
	}
	p := &parking{failures: f}
	park := halves[relay.ParkedKey]{do: p.park, tell: refusesRow, take: p.take}
	err = pg.InTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) error {
		if err := holdLanes(ctx, tx, f.row, claim, keys); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, plainPlan); err != nil {
			return fmt.Errorf("set the plan: %w", err)
		}
		return park.attempt(ctx, tx, parked)
	})
	if err == nil {
		err = p.refused.err()
	}
	if err != nil {
		return nil, fmt.Errorf("park %d keys of %s: %w", len(parked), f.row.Table, err)
	}
	return p.gone, nil
}

// parking is one transaction that parks keys.
type parking struct {
	*failures
	// gone are the keys whose events are not unpublished any more.
	gone []relay.Key
	// refused are those that the server refuses to park.
	refused refusedRows
}

// take notes the key that is refused.
func (p *parking) take(parked []relay.ParkedKey, err error) bool {
	if len(parked) == 1 {
		p.refused.add(fmt.Errorf("the one of topic %s that stops at event %d: %w", parked[0].Topic, parked[0].Event.ID, err))
	}
	return len(parked) == 1
}

// refusesRow tells that the server refuses what is in a row, or a trigger does. A right that is missing, or a column, is missing for every row.
func refusesRow(err error) bool {
	c := pg.Code(err)
	return len(c) == 5 && strings.Contains("21 22 23 54 P0", c[:2])
}

func (p *parking) park(ctx context.Context, tx pgx.Tx, parked []relay.ParkedKey) error {
	rows, err := tx.Query(ctx, fmt.Sprintf(parkSQL, p.row.Table.SQL()), p.args(parked)...)
	if err != nil {
		return err
	}
	waits := make([]bool, len(parked))
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&n}, func() error { waits[n-1] = true; return nil }); err != nil {
		return err
	}
	for i, w := range waits {
		if !w {
			p.gone = append(p.gone, parked[i].Key)
		}
	}
	return nil
}

// args are the parameters of parkSQL. Ids of events are sent as text: a pool that prepares nothing cannot send others.
func (p *parking) args(parked []relay.ParkedKey) []any {
	n := len(parked)
	ids, eventIDs, hashes, lanes, attempts := make([]int64, n), make([]string, n), make([][]byte, n), make([]int32, n), make([]int32, n)
	topics, keys, types, codes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	reasons, errs, aggregates, aggregateIDs := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, k := range parked {
		ids[i], eventIDs[i] = k.Event.ID, k.Event.EventID.String()
		topics[i], keys[i], hashes[i], lanes[i] = k.Topic, k.PartitionKey, pg.KeyHash(k.Key), relay.Lane(k.PartitionKey, p.row.Lanes)
		types[i], codes[i], reasons[i] = k.EventType, k.Code, p.row.Storable(k.Reason)
		errs[i], attempts[i] = errorOf(p.row, k.Code, k.Reason), attemptsOf(k.Code)
		aggregates[i], aggregateIDs[i] = k.Aggregate.Type, k.Aggregate.ID
	}
	return []any{p.row.ID, ids, eventIDs, topics, keys, hashes, lanes, types, codes, reasons, errs, attempts, aggregates, aggregateIDs}
}
