package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/operate"
)

var _ operate.Largest = (*Store)(nil)

// LargestOf implements [operate.Largest]. The size stands in the reason, in words: it is the broker's measure of a record, which no column has.
func (s *Store) LargestOf(ctx context.Context, verb operate.Verb, topics []string) (found []operate.TopicSize, err error) {
	from, failed := "outbox.parked_key t", "t.code"
	if verb == operate.VerbRestore {
		from, failed = "outbox.dead_event t", failedBy("t")
	}
	err = s.change(ctx, "look for the largest record", func(ctx context.Context, l survey) error {
		var q query
		rows, err := l.tx.Query(ctx, fmt.Sprintf(`
SELECT topic, largest FROM (
    SELECT topic, max(substring(reason FROM '([0-9]{1,18}) bytes')::bigint) AS largest FROM %s
    WHERE source = %s AND %s = 'MESSAGE_TOO_LARGE' AND topic = ANY (%s) GROUP BY topic) t
WHERE largest IS NOT NULL ORDER BY topic`, from, q.param(l.row.id, "uuid"), failed, q.param(topics, "text[]")), q.args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[operate.TopicSize])
		return err
	})
	return found, err
}

// failedBy is the expression for why a dead event t, by its alias, had failed: its code, or where an operator gave it up while it stopped its key, what that was for.
func failedBy(t string) string {
	return fmt.Sprintf("CASE WHEN %[1]s.code IN ('SKIPPED', 'DEAD') THEN coalesce(substring(%[1]s.reason FROM 'its key was parked: ([A-Z0-9_]+):'), %[1]s.code) ELSE %[1]s.code END", t)
}
