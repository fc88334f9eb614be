package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
)

// rowsGoneBefore is how many rows in front of an event are looked at for the newest settled one.
const rowsGoneBefore = 10_000

// rowsGone tells whether settled rows may have been deleted, so that a row that is not there proves nothing. newest is when the newest settled row behind the id was
// published, nil where there is none.
//
// Whoever prunes writes that down before the first row goes. Nobody writes down that relays settle by deleting: but then the source has published later than any settled row that
// is there. Where this cannot be seen, they may be gone. Rows that somebody else deletes leave no trace.
func rowsGone(ctx context.Context, db pg.Runner, row pg.Source, id int64, newest *time.Time) (gone bool, err error) {
	err = pg.InTx(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, overtakenTime); err != nil {
			return err
		}
		// The last publication is noted within seconds, in a transaction of its own.
		return tx.QueryRow(ctx, fmt.Sprintf(`
SELECT EXISTS (SELECT FROM outbox.retention r WHERE r.source = s.id) OR s.published IS NOT NULL AND coalesce(greatest($2::timestamptz,
    (SELECT max(b.published_at) FROM (SELECT t.published_at FROM %s t WHERE t.id < $3::bigint ORDER BY t.id DESC LIMIT $4::integer) b WHERE isfinite(b.published_at))
) < s.published - interval '1 minute', true)
FROM (SELECT id, coalesce(last_published_at, first_published_at) AS published FROM outbox.source WHERE id = $1) s`, row.Table.SQL()),
			row.ID, newest, id, rowsGoneBefore).Scan(&gone)
	})
	if isBusy(err) && ctx.Err() == nil {
		return true, nil
	}
	return gone, err
}
