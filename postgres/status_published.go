package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
)

// readLastPublished takes what relays have written down, and what a bounded number of rows tell, over the primary key: no index knows published_at, and old events
// that go out late, those of a key that was parked, are anywhere.
func readLastPublished(ctx context.Context, q pg.Querier, row pg.Source) (time.Time, error) {
	var last *time.Time
	table := row.Table.SQL()
	err := q.QueryRow(ctx, fmt.Sprintf(`
SELECT max(published_at) FROM (
    (SELECT last_published_at AS published_at FROM outbox.source WHERE id = $1)
    UNION ALL
    (SELECT published_at FROM %[1]s ORDER BY id DESC LIMIT 1000)
    UNION ALL
    (SELECT published_at FROM %[1]s
     WHERE id < (SELECT id FROM %[1]s WHERE published_at IS NULL ORDER BY id LIMIT 1) ORDER BY id DESC LIMIT 1000)) newest`, table), row.ID).
		Scan(&last)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, fmt.Errorf("read the last publication: %w", err)
	}
	if last == nil {
		return time.Time{}, nil
	}
	return *last, nil
}
