package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// Overtaken tells whether events of a key that are newer than a dead one are published already: restored, it comes to the consumers after them.
type Overtaken int

// The answers. OvertakenUnknown is of more newer rows than are looked through, as no index leads to those of a key; OvertakenRowsGone of none that is published among those
// that are there, where settled rows may have been deleted.
const (
	OvertakenNo Overtaken = iota
	OvertakenYes
	OvertakenUnknown
	OvertakenRowsGone
)

// place is where an event goes out, or is put back, that nothing stops. It follows the verb.
func (o Overtaken) place() string {
	switch o {
	case OvertakenYes:
		return " behind newer events of its key, which are published already"
	case OvertakenUnknown:
		return ", behind those newer events of its key that are published already, if there are any: there were too many rows to look through"
	case OvertakenRowsGone:
		return "; whether that is behind newer events of its key is not known: settled rows of its key may have been deleted"
	}
	return " in its place"
}

// sentence goes at the end of an outcome.
func (o Overtaken) sentence() string {
	switch o {
	case OvertakenYes:
		return "; newer events of its key are published already"
	case OvertakenUnknown:
		return "; newer events of its key may be published already"
	case OvertakenRowsGone:
		return "; whether newer events of its key are published already is not known: settled rows of its key may have been deleted"
	}
	return ""
}

// How many rows are looked through, from the oldest of the events on, and for how long: rows that were deleted are passed too, and while an old snapshot is held
// those may be many more.
const (
	overtakenRows = 50_000
	overtakenTime = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('statement_timeout', '1s', true)`
)

// overtakenBy looks at the rows behind events in the order of the primary key, once for all.
func overtakenBy(ctx context.Context, db pg.Runner, row pg.Source, keys []relay.Key, ids []int64) ([]Overtaken, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	topics, partitionKeys := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		topics[i], partitionKeys[i] = k.Topic, k.PartitionKey
	}
	answers := slices.Repeat([]Overtaken{OvertakenUnknown}, len(ids))
	var newest *time.Time
	err := pg.InTx(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, overtakenTime); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, fmt.Sprintf(`
WITH behind AS MATERIALIZED (
    SELECT t.id, t.topic::text AS topic, t.partition_key::text AS key, t.published_at FROM %s t WHERE t.id > $4::bigint ORDER BY t.id LIMIT $5::integer
)
SELECT u.n, (SELECT count(*) FROM behind) = $5::integer, coalesce(b.newest > u.id, false), (SELECT max(published_at) FROM behind WHERE isfinite(published_at))
FROM unnest($1::bigint[], $2::text[], $3::text[]) WITH ORDINALITY u(id, topic, key, n)
LEFT JOIN (SELECT topic, key, max(id) AS newest FROM behind WHERE published_at IS NOT NULL GROUP BY topic, key) b ON b.topic = u.topic AND b.key = u.key`, row.Table.SQL()),
			ids, topics, partitionKeys, slices.Min(ids), overtakenRows)
		if err != nil {
			return err
		}
		var n int
		var cut, newer bool
		_, err = pgx.ForEachRow(rows, []any{&n, &cut, &newer, &newest}, func() error {
			switch {
			case newer:
				answers[n-1] = OvertakenYes
			case !cut:
				answers[n-1] = OvertakenNo
			}
			return nil
		})
		return err
	})
	if isBusy(err) && ctx.Err() == nil {
		return slices.Repeat([]Overtaken{OvertakenUnknown}, len(ids)), nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for newer events of %s: %w", row.Table, err)
	}
	if !slices.Contains(answers, OvertakenNo) {
		return answers, nil
	}
	gone, err := rowsGone(ctx, db, row, slices.Min(ids), newest)
	if err != nil {
		return nil, fmt.Errorf("look whether settled events of %s were deleted: %w", row.Table, err)
	}
	for i, a := range answers {
		if gone && a == OvertakenNo {
			answers[i] = OvertakenRowsGone
		}
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
