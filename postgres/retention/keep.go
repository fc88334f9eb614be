package retention

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
)

// keepBelow returns the id of the last of the newest settled events that are kept for their number: what is below it may go. It is the lowest id there can
// be when there are no more events than that. It reads down from the highest id, so it costs as much as is kept, in pages.
func (w *pruneWalk) keepBelow(ctx context.Context, keep int64) (int64, error) {
	below, limit := int64(math.MaxInt64), int64(prunePage)
	for {
		var rows, settled, last, lowest int64
		err := w.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, fmt.Sprintf(`
WITH page AS MATERIALIZED (SELECT t.id, t.published_at FROM %s t WHERE t.id < $1 ORDER BY t.id DESC LIMIT $2),
    settled AS (SELECT id, row_number() OVER (ORDER BY id DESC) AS place FROM page WHERE published_at IS NOT NULL)
SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM settled), coalesce((SELECT id FROM settled WHERE place = $3), 0), coalesce((SELECT min(id) FROM page), 0)`,
				w.target.table), below, limit, keep).Scan(&rows, &settled, &last, &lowest)
		})
		switch {
		case err != nil && yields(ctx, err) && limit > 1:
			limit /= 2
			continue
		case err != nil:
			return 0, fmt.Errorf("count the newest settled events: %w", err)
		case settled >= keep:
			return last, nil
		case rows < limit:
			return math.MinInt64, nil
		}
		keep -= settled
		below, limit = lowest, min(2*limit, prunePage)
	}
}
