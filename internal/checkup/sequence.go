package checkup

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// sequenceSQL asks for the sequence of the ids, and where it stands: nothing where it has drawn none. One that belongs to no column, and one that
// descends, are findings of the migration's own checks.
const sequenceSQL = `
SELECT s.name, may.ask, CASE WHEN may.ask THEN coalesce(pg_sequence_last_value(s.name::regclass), q.seqstart - 1) END
FROM (SELECT pg_get_serial_sequence($1, 'id') AS name) s JOIN pg_sequence q ON q.seqrelid = s.name::regclass AND q.seqincrement > 0,
     LATERAL (SELECT has_sequence_privilege(s.name, 'USAGE, SELECT') AS ask) may`

// sequence finds one that stands below the rows, as after logical replication, which copies none. The newest row is asked for first: what is drawn
// in between stands above it.
func (c checks) sequence(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error) {
	var newest, last *int64
	if err := tx.QueryRow(ctx, `SELECT max(id)::bigint FROM `+c.table.SQL()).Scan(&newest); err != nil {
		return nil, "", fmt.Errorf("ask for the newest id: %w", err)
	}
	var name string
	var mayAsk bool
	rows, err := tx.Query(ctx, sequenceSQL, c.table.SQL())
	if err != nil {
		return nil, "", fmt.Errorf("ask where the sequence stands: %w", err)
	}
	n, err := pgx.ForEachRow(rows, []any{&name, &mayAsk, &last}, func() error { return nil })
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("ask where the sequence stands: %w", err)
	case n.RowsAffected() == 0:
		return nil, "", nil
	case !mayAsk:
		return nil, fmt.Sprintf("the role may not read the sequence: GRANT SELECT ON SEQUENCE %s", name), nil
	case newest == nil || *last >= *newest:
		return nil, "", nil
	}
	return []Symptom{{
		Code: "sequence-behind", Grave: true, Text: fmt.Sprintf("the sequence %s stands at %d, and the newest row of %s has the id %d", name, *last, c.table, *newest),
		Why: "writers fail with a duplicate key, or, where older rows were deleted, get ids below those of older events, and the order of keys turns: logical replication and some restores leave sequences behind",
		Mend: "-- Before a writer opens. Where newer rows were deleted already, set it to the last value of the server that they came from.\n" +
			fmt.Sprintf("SELECT setval('%s', max(id)) FROM %s;", strings.ReplaceAll(name, "'", "''"), c.table.SQL()),
	}}, "", nil
}
