package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/relay"
)

// failures keeps what was tried in vain and which keys are parked, and carries out what operators ask for.
type failures struct {
	db  runner
	row sourceRow
}

// ParkedKeys implements [relay.Failures]. The keys come in the order in which they were parked.
func (f *failures) ParkedKeys(ctx context.Context, lanes []int32) ([]relay.ParkedKey, error) {
	return f.parkedKeys(ctx, "lane = ANY ($2::integer[])", lanes)
}

// parkedKeys returns those for which the condition, on one parameter, holds.
func (f *failures) parkedKeys(ctx context.Context, condition string, arg any) ([]relay.ParkedKey, error) {
	var parked []relay.ParkedKey
	err := f.db.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `
SELECT topic, partition_key, id, event_id, event_type, code, reason, parked_at
FROM outbox.parked_key WHERE source = $1 AND `+condition+` ORDER BY parked_at, id`, f.row.id, arg)
		if err != nil {
			return err
		}
		parked, err = pgx.CollectRows(rows, scanParked)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the parked keys of %s: %w", f.row.table, err)
	}
	return parked, nil
}

func scanParked(row pgx.CollectableRow) (relay.ParkedKey, error) {
	var p relay.ParkedKey
	err := row.Scan(&p.Topic, &p.PartitionKey, &p.Event.ID, &p.Event.EventID, &p.EventType, &p.Code, &p.Reason, &p.At)
	return p, err
}

// Park implements [relay.Failures]. An event that is no longer unpublished parks nothing: somebody has settled or removed it meanwhile.
// Parking a key again for the same event keeps the time of the first.
func (f *failures) Park(ctx context.Context, claim relay.Claim, p relay.ParkedKey) error {
	lane := relay.Lane(p.PartitionKey, f.row.lanes)
	err := inTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) error {
		if err := holdLane(ctx, tx, f.row.id, claim, lane); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, fmt.Sprintf(`
INSERT INTO outbox.parked_key AS k (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason)
SELECT $1, $2, $3, $4, $5, t.id, t.event_id, $8, $9, $10 FROM %s t
WHERE t.id = $6 AND t.event_id = $7 AND t.published_at IS NULL
ON CONFLICT (source, key_hash) DO UPDATE SET
    id = excluded.id, event_id = excluded.event_id, event_type = excluded.event_type, code = excluded.code, reason = excluded.reason,
    parked_at = CASE WHEN k.event_id = excluded.event_id THEN k.parked_at ELSE excluded.parked_at END`, f.row.table.sql()),
			f.row.id, p.Topic, keyHash(p.Key), p.PartitionKey, lane,
			p.Event.ID, p.Event.EventID, p.EventType, p.Code, f.row.storable(p.Reason))
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return f.record(ctx, tx, relay.FailedEvent{Key: p.Key, Event: p.Event, EventType: p.EventType, Code: p.Code, Reason: p.Reason}, nil)
	})
	if err != nil {
		return fmt.Errorf("park a key of topic %s of %s: %w", p.Topic, f.row.table, err)
	}
	return nil
}

// maxTopic is how much of a text is kept where it is part of an index entry.
const maxTopic = 1000

// HoldTopics implements [relay.Failures]. An owner that is not registered any more writes nothing.
func (f *failures) HoldTopics(ctx context.Context, owner relay.Owner, held []relay.HeldTopic) error {
	topics, codes, reasons := make([]string, len(held)), make([]string, len(held)), make([]string, len(held))
	for i, h := range held {
		topics[i], codes[i], reasons[i] = storable(strings.ToValidUTF8(h.Topic[:min(len(h.Topic), maxTopic)], "")), h.Code, f.row.storable(h.Reason)
	}
	err := inTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
DELETE FROM outbox.held_topic WHERE source = $1 AND owner = $2 AND topic <> ALL ($3::text[])`, f.row.id, owner.ID, topics)
		if err != nil {
			return err
		}
		// The lock keeps the registration until the topics are written: they are removed with it.
		_, err = tx.Exec(ctx, `
WITH me AS MATERIALIZED (
    SELECT source, owner FROM outbox.relay WHERE source = $1 AND owner = $2 FOR KEY SHARE
)
INSERT INTO outbox.held_topic AS h (source, owner, topic, code, reason)
SELECT DISTINCT ON (n.topic) me.source, me.owner, n.topic, n.code, n.reason
FROM me, unnest($3::text[], $4::text[], $5::text[]) AS n(topic, code, reason)
ON CONFLICT (source, owner, topic) DO UPDATE SET code = excluded.code, reason = excluded.reason`,
			f.row.id, owner.ID, topics, codes, reasons)
		return err
	})
	if err != nil {
		return fmt.Errorf("write down the held topics of %s: %w", f.row.table, err)
	}
	return nil
}
