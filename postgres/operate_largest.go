package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/operate"
)

var _ operate.Largest = (*Store)(nil)

// toLetter stands in the reason of a key whose event a dead-letter topic has refused, between what that topic has said and why the event was to go there.
const toLetter = "; why it is to go there: "

// LargestOf implements [operate.Largest]. The size stands in the reason, in words: it is the broker's measure of a record, which no column has. The reason of a key whose letter was refused
// has up to two sizes: first that of the letter, which is the dead-letter topic's, then that of the record.
func (s *Store) LargestOf(ctx context.Context, verb operate.Verb, topics []string) (found []operate.TopicSize, err error) {
	from, failed := "outbox.parked_key t", "t.code"
	if verb == operate.VerbRestore {
		from, failed = "outbox.dead_event t", failedBy("t")
	}
	err = s.change(ctx, "look for the largest record", func(ctx context.Context, l survey) error {
		var q query
		refused := fmt.Sprintf("SELECT t.topic, t.reason, %s AS code FROM %s WHERE source = %s AND topic = ANY (%s)", failed, from, q.param(l.row.ID, "uuid"), q.param(topics, "text[]"))
		rows, err := l.tx.Query(ctx, fmt.Sprintf(`
SELECT topic, max(substring(said FROM '([0-9]{1,18}) bytes')::bigint) AS largest FROM (
    SELECT topic, coalesce(nullif(split_part(reason, '%[2]s', 2), ''), reason) AS said FROM (%[1]s) t WHERE code = 'MESSAGE_TOO_LARGE'
    UNION ALL
    SELECT substring(reason FROM '^the dead-letter topic (\S+) does not take it: MESSAGE_TOO_LARGE'), split_part(reason, '%[2]s', 1) FROM (%[1]s) t
) s WHERE topic IS NOT NULL GROUP BY topic HAVING max(substring(said FROM '([0-9]{1,18}) bytes')::bigint) IS NOT NULL ORDER BY topic`, refused, toLetter), q.args...)
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
