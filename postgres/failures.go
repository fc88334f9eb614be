package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// failures keeps what was tried in vain and which keys are parked, and carries out what operators ask for.
type failures struct {
	db  pg.Runner
	row pg.Source
	now func() time.Time
	// burials is how many events the next call of Bury takes.
	burials pace
}

func newFailures(db pg.Runner, row pg.Source) *failures {
	return &failures{db: db, row: row, now: time.Now, burials: firstBurial}
}

// ParkedKeys implements [relay.Failures]. The keys come in the order in which they were parked.
func (f *failures) ParkedKeys(ctx context.Context, lanes []int32) ([]relay.ParkedKey, error) {
	return f.parkedKeys(ctx, "lane = ANY ($2::integer[])", lanes)
}

// parkedKeys returns those for which the condition, on one parameter, holds.
func (f *failures) parkedKeys(ctx context.Context, condition string, arg any) ([]relay.ParkedKey, error) {
	var parked []relay.ParkedKey
	err := f.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `
SELECT topic, partition_key, id, event_id, event_type, coalesce(aggregate_type, ''), coalesce(aggregate_id, ''), code, reason, parked_at
FROM outbox.parked_key WHERE source = $1 AND `+condition+` ORDER BY parked_at, id`, f.row.ID, arg)
		if err != nil {
			return err
		}
		parked, err = pgx.CollectRows(rows, scanParked)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the parked keys of %s: %w", f.row.Table, err)
	}
	return parked, nil
}

func scanParked(row pgx.CollectableRow) (relay.ParkedKey, error) {
	var p relay.ParkedKey
	err := row.Scan(&p.Topic, &p.PartitionKey, &p.Event.ID, &p.Event.EventID, &p.EventType, &p.Aggregate.Type, &p.Aggregate.ID, &p.Code, &p.Reason, &p.At)
	return p, err
}

// maxTopic is how much of a text is kept where it is part of an index entry.
const maxTopic = 1000

// heldName is how a topic is called that is held: its name may be too long for a row's key.
func heldName(topic string) string {
	return pg.Storable(strings.ToValidUTF8(topic[:min(len(topic), maxTopic)], ""))
}

// HoldTopics implements [relay.Failures]. An owner that is not registered any more writes nothing.
func (f *failures) HoldTopics(ctx context.Context, owner relay.Owner, change relay.HeldChange) error {
	n := len(change.Held)
	topics, codes, reasons := make([]string, n), make([]string, n), make([]string, n)
	for i, h := range change.Held {
		topics[i], codes[i], reasons[i] = heldName(h.Topic), h.Code, f.row.Storable(h.Reason)
	}
	released := make([]string, len(change.Released))
	for i, name := range change.Released {
		released[i] = heldName(name)
	}
	err := pg.InTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) error {
		if change.Anew {
			if _, err := tx.Exec(ctx, `DELETE FROM outbox.held_topic WHERE source = $1 AND owner = $2`, f.row.ID, owner.ID); err != nil {
				return err
			}
		}
		if len(released) > 0 {
			_, err := tx.Exec(ctx, `DELETE FROM outbox.held_topic WHERE source = $1 AND owner = $2 AND topic = ANY ($3::text[])`, f.row.ID, owner.ID, released)
			if err != nil {
				return err
			}
		}
		if n == 0 {
			return nil
		}
		// The lock keeps the registration until the topics are written: they are removed with it.
		_, err := tx.Exec(ctx, `
WITH me AS MATERIALIZED (
    SELECT source, owner FROM outbox.relay WHERE source = $1 AND owner = $2 FOR KEY SHARE
)
INSERT INTO outbox.held_topic AS h (source, owner, topic, code, reason)
SELECT DISTINCT ON (n.topic) me.source, me.owner, n.topic, n.code, n.reason
FROM me, unnest($3::text[], $4::text[], $5::text[]) AS n(topic, code, reason)
ON CONFLICT (source, owner, topic) DO UPDATE SET code = excluded.code, reason = excluded.reason`,
			f.row.ID, owner.ID, topics, codes, reasons)
		return err
	})
	if err != nil {
		return fmt.Errorf("write down the held topics of %s: %w", f.row.Table, err)
	}
	return nil
}
