package checkup

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
)

// WaitingTopic is a topic that unpublished events go to.
type WaitingTopic struct {
	Topic string
	// Events is how many of them were looked at.
	Events int64
	// Largest is about the size of the largest record in bytes, and ID its event: key, payload and headers, without what the batch adds.
	Largest, ID int64
}

// Waiting is what a window of unpublished events needs of Kafka.
type Waiting struct {
	Topics []WaitingTopic
	// Events is how many were looked at, the newest; More tells that there are older ones.
	Events int64
	More   bool
	// Letters are dead-letter topics that dead events were sent to, of the newest 1,000 of these.
	Letters []string
}

// headerBytes is about what the headers of every record take: the event's id and its type with their names.
const headerBytes = 100

// ReadWaiting looks at the newest unpublished events, as many as window says, and at where dead ones went.
func ReadWaiting(ctx context.Context, pool *pgxpool.Pool, table string, window int) (w Waiting, err error) {
	name, err := pg.ParseTable(table)
	if err != nil {
		return w, err
	}
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		columns, err := pg.ReadColumns(ctx, tx, name)
		if err != nil {
			return err
		}
		if err := w.readTopics(ctx, tx, name, slices.Contains(columns, "headers"), window); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
SELECT DISTINCT letter_topic FROM (SELECT d.letter_topic FROM outbox.dead_event d JOIN outbox.source s ON s.id = d.source
    WHERE s.table_schema = $1 AND s.table_name = $2 ORDER BY d.id DESC LIMIT 1000) d WHERE letter_topic IS NOT NULL ORDER BY 1`, name.Schema, name.Name)
		if err != nil {
			return err
		}
		w.Letters, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return w, fmt.Errorf("look at unpublished events: %w", err)
	}
	return w, nil
}

func (w *Waiting) readTopics(ctx context.Context, tx pgx.Tx, table pg.Table, headers bool, window int) error {
	size := fmt.Sprintf("octet_length(payload::text) + octet_length(partition_key::text) + octet_length(event_type::text) + %d", headerBytes)
	if headers {
		size += " + coalesce(octet_length(headers::text), 0)"
	}
	rows, err := tx.Query(ctx, fmt.Sprintf(`
SELECT topic, count(*), max(size), (array_agg(id ORDER BY size DESC))[1] FROM (
    SELECT id, coalesce(topic::text, '') AS topic, coalesce(%s, 0)::bigint AS size FROM %s WHERE published_at IS NULL ORDER BY id DESC LIMIT $1) e
GROUP BY topic ORDER BY topic`, size, table.SQL()), window)
	if err != nil {
		return err
	}
	w.Topics, err = pgx.CollectRows(rows, pgx.RowToStructByPos[WaitingTopic])
	for _, t := range w.Topics {
		w.Events += t.Events
	}
	w.More = w.Events >= int64(window)
	return err
}
