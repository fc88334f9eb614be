package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// readLetterTopics takes the dead-letter topics from the reasons of the oldest parked keys, limit of them at most: a relay begins the reason of a key with what the dead-letter topic has
// answered.
func readLetterTopics(ctx context.Context, q pg.Querier, source uuid.UUID, limit int) ([]operate.LetterTopic, error) {
	rows, err := q.Query(ctx, `
SELECT said[1], said[2], count(*), min(parked_at), bool_or(more) FROM (
    SELECT regexp_match(reason, '^the dead-letter topic (\S+) does not take it: ([A-Z0-9_]+)') AS said, parked_at, count(*) OVER () > $2 AS more, row_number() OVER (ORDER BY id) AS n
    FROM (SELECT id, reason, parked_at FROM outbox.parked_key WHERE source = $1::uuid ORDER BY id LIMIT $2::bigint + 1) k
) l WHERE said IS NOT NULL AND n <= $2 GROUP BY said[1], said[2] ORDER BY count(*) DESC, said[1], said[2]`, source.String(), limit)
	if err != nil {
		return nil, fmt.Errorf("look for dead-letter topics that take nothing: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (l operate.LetterTopic, err error) {
		err = row.Scan(&l.Topic, &l.Code, &l.ParkedKeys, &l.Since, &l.ParkedKeysCapped)
		l.Since = l.Since.UTC()
		return l, err
	})
}

func (t *topicCounter) letters(ctx context.Context) (err error) {
	t.list.LetterTopics, err = readLetterTopics(ctx, t.tx, t.row.ID, t.windows.topics)
	return err
}
