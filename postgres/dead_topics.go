package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

var _ relay.TopicLister = (*Source)(nil)

// How many rows are looked through for their topics: the oldest unpublished ones, and the newest of each table.
const (
	topicsUnpublished = 10_000
	topicsNewest      = 1_000
)

// Topics implements [relay.TopicLister]: of what is unpublished, of the newest rows, and of parked and dead events.
func (s *Source) Topics(ctx context.Context) ([]string, error) {
	o, err := s.now("look for the topics of")
	if err != nil {
		return nil, err
	}
	return o.failures.topics(ctx)
}

// topics goes by the partial index and the primary keys. Rows that were deleted are passed too, and may be many more: what takes too long is given up, and none is known.
func (f *failures) topics(ctx context.Context) (topics []string, err error) {
	err = pg.InTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, overtakenTime); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, fmt.Sprintf(`
SELECT DISTINCT topic FROM (
    (SELECT topic::text FROM %[1]s WHERE published_at IS NULL ORDER BY id LIMIT $2::integer)
    UNION ALL (SELECT topic::text FROM %[1]s ORDER BY id DESC LIMIT $3::integer)
    UNION ALL (SELECT topic FROM outbox.parked_key WHERE source = $1 ORDER BY id DESC, event_id DESC LIMIT $3::integer)
    UNION ALL (SELECT topic FROM outbox.dead_event WHERE source = $1 ORDER BY id DESC, event_id DESC LIMIT $3::integer)
) t WHERE topic IS NOT NULL`, f.row.Table.SQL()), f.row.ID, topicsUnpublished, topicsNewest)
		if err != nil {
			return err
		}
		topics, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if isBusy(err) && ctx.Err() == nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the topics of %s: %w", f.row.Table, err)
	}
	return topics, nil
}
