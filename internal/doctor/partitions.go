package doctor

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/postgres/retention"
)

// partitions looks for tables that were partitions: no relay reads what is left in them.
func partitions(ctx context.Context, pool *pgxpool.Pool, table string) (found []Finding, err error) {
	all, err := retention.FindDetached(ctx, pool, table)
	for _, d := range all {
		f := Finding{Code: "partition-detached", Severity: Warning, Text: d.Name + ": " + d.Text, Mend: "outbox prune --partitions, or as the table's owner: " + d.Mend}
		if d.Lost {
			f.Severity = Error
		}
		if d.Lost || d.Unknown {
			f.Why = "events that are not published there stay unpublished"
		}
		found = append(found, f)
	}
	return found, err
}
