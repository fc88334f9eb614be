package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/relay"
)

// Overtaken tells whether events of a key that are newer than a dead one are published already: restored, it comes to the consumers after them.
type Overtaken int

// The answers. OvertakenUnknown is of more newer rows than are looked through, as no index leads to those of a key.
const (
	OvertakenNo Overtaken = iota
	OvertakenYes
	OvertakenUnknown
)

// sentence goes at the end of an outcome.
func (o Overtaken) sentence() string {
	switch o {
	case OvertakenYes:
		return "; newer events of its key are published already"
	case OvertakenUnknown:
		return "; newer events of its key may be published already"
	}
	return ""
}

// How many rows behind all events together, and behind each, are looked through.
const (
	overtakenRows   = 100_000
	overtakenAtMost = 20_000
	overtakenLeast  = 20
)

// overtakenBy looks at the rows behind events in the order of the primary key. Rows that are gone, settled by deleting or pruned, tell nothing.
func overtakenBy(ctx context.Context, db runner, row sourceRow, keys []relay.Key, ids []int64) ([]Overtaken, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	window := max(overtakenLeast, min(overtakenAtMost, overtakenRows/len(ids)))
	topics, partitionKeys := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		topics[i], partitionKeys[i] = k.Topic, k.PartitionKey
	}
	answers := make([]Overtaken, len(ids))
	err := inTx(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, plainPlan); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, fmt.Sprintf(`
SELECT u.n, coalesce(w.newer, false), w.looked = $4::integer
FROM unnest($1::bigint[], $2::text[], $3::text[]) WITH ORDINALITY u(id, topic, key, n)
CROSS JOIN LATERAL (
    SELECT bool_or(s.published_at IS NOT NULL AND s.topic::text = u.topic AND s.partition_key::text = u.key) AS newer, count(*) AS looked
    FROM (SELECT t.published_at, t.topic, t.partition_key FROM %s t WHERE t.id > u.id ORDER BY t.id LIMIT $4::integer) s) w`, row.table.sql()),
			ids, topics, partitionKeys, window)
		if err != nil {
			return err
		}
		var n int
		var newer, cut bool
		_, err = pgx.ForEachRow(rows, []any{&n, &newer, &cut}, func() error {
			switch {
			case newer:
				answers[n-1] = OvertakenYes
			case cut:
				answers[n-1] = OvertakenUnknown
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for newer events of %s: %w", row.table, err)
	}
	return answers, nil
}

// lookAhead asks for the events that a batch is to restore. It is done before the lanes are locked: it reads many rows, and only the words of the outcomes depend on
// it.
func (q *requests) lookAhead(ctx context.Context, rs []request) (map[relay.Ref]Overtaken, error) {
	var refs []relay.Ref
	var keys []relay.Key
	var ids []int64
	for _, r := range rs {
		if r.verb == VerbRestore && r.event != nil {
			refs, keys, ids = append(refs, *r.event), append(keys, r.key), append(ids, r.event.ID)
		}
	}
	answers, err := overtakenBy(ctx, q.db, q.row, keys, ids)
	if err != nil {
		return nil, err
	}
	found := make(map[relay.Ref]Overtaken, len(refs))
	for i, ref := range refs {
		found[ref] = answers[i]
	}
	return found, nil
}
