package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// copySQL asks when the source was registered, when the server was made (the first half of its system identifier is that time), and whether
// the schema outbox is older than this database: every object gets a higher number than what was there before it, and a template's keep theirs.
const copySQL = `
SELECT s.id::text, s.created_at, to_timestamp((system_identifier >> 32)::double precision),
    (SELECT c.oid < d.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_database d
        WHERE n.nspname = 'outbox' AND c.relname = 'source' AND d.datname = current_database()),
    has_function_privilege('pg_stat_file(text)', 'EXECUTE')
FROM outbox.source s, pg_control_system() WHERE s.table_schema = $1 AND s.table_name = $2`

// copied finds a source that came from elsewhere with its id: by a dump, or with the template of the database. Both may have a relay then.
func (c checkups) copied(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error) {
	var id string
	var registered, made time.Time
	var templated, mayAsk bool
	rows, err := tx.Query(ctx, copySQL, c.table.schema, c.table.name)
	if err != nil {
		return nil, "", fmt.Errorf("ask where the source is from: %w", err)
	}
	n, err := pgx.ForEachRow(rows, []any{&id, &registered, &made, &templated, &mayAsk}, func() error { return nil })
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("ask where the source is from: %w", err)
	case n.RowsAffected() == 0:
		return nil, "", nil
	case registered.Before(made):
		return c.copySymptom(id, registered, "this server", made), "", nil
	case !templated:
		return nil, "", nil
	case !mayAsk:
		return nil, "whether the source was copied with the database's template: GRANT EXECUTE ON FUNCTION pg_stat_file(text)", nil
	}
	err = tx.QueryRow(ctx, `SELECT (pg_stat_file('base/' || oid || '/PG_VERSION')).modification FROM pg_database WHERE datname = current_database()`).Scan(&made)
	if err != nil {
		return nil, "", fmt.Errorf("ask when the database was made: %w", err)
	}
	// The file's time is that of a whole second.
	if registered.Before(made.Truncate(time.Second)) {
		return c.copySymptom(id, registered, "this database", made), "", nil
	}
	return nil, "", nil
}

func (c checkups) copySymptom(id string, registered time.Time, what string, made time.Time) []Symptom {
	return []Symptom{{
		Code: "source-copied", Text: fmt.Sprintf("the source %s of %s was registered at %s, and %s was made at %s: it was copied from elsewhere", id, c.table, clock(registered), what, clock(made)),
		Why: "if the original is still relayed, a relay here publishes the same events a second time: in a copy for tests, mark them published before one starts",
		Mend: "-- Only where this is no copy any more but the place to which the original was moved:\n" +
			fmt.Sprintf("UPDATE outbox.source SET created_at = now() WHERE id = '%s';", id),
	}}
}
