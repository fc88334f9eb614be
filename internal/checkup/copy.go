package checkup

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/outbox-relay/outbox/internal/pg"
)

// copySQL asks when the source was registered, when the server was made (the first half of its system identifier is that time), and whether the role
// may ask when a file was changed.
const copySQL = `
SELECT s.id::text, s.created_at, to_timestamp((system_identifier >> 32)::double precision), has_function_privilege('pg_stat_file(text)', 'EXECUTE')
FROM outbox.source s, pg_control_system() WHERE s.table_schema = $1 AND s.table_name = $2`

// databaseMadeSQL asks when the database was made: PG_VERSION lies beside its tables and is never written again. The catalog has no such time.
// Of template1 (number 1, unless somebody made it anew) it is that of the server, or of the copy of the server's files: a base backup writes them all.
const databaseMadeSQL = `
SELECT (pg_stat_file(regexp_replace(pg_relation_filepath('pg_class'), '[^/]*$', 'PG_VERSION'))).modification,
       coalesce((pg_stat_file('base/1/PG_VERSION', true)).modification, '-infinity')`

// makingOfAServer is more than initdb takes.
const makingOfAServer = time.Minute

// copied finds a source that came from elsewhere with its id: by a dump, or with the template of the database. Both may have a relay then.
func (c checks) copied(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error) {
	var id string
	var registered, made time.Time
	var files pgtype.Timestamptz
	var mayAsk bool
	rows, err := tx.Query(ctx, copySQL, c.table.Schema, c.table.Name)
	if err != nil {
		return nil, "", fmt.Errorf("ask where the source is from: %w", err)
	}
	n, err := pgx.ForEachRow(rows, []any{&id, &registered, &made, &mayAsk}, func() error { return nil })
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("ask where the source is from: %w", err)
	case n.RowsAffected() == 0:
		return nil, "it is not registered", nil
	case registered.Before(made):
		return c.copySymptom(id, registered, "this server", made), "", nil
	case !mayAsk:
		return nil, "whether it came with a dump or with the database's template: the role may not ask when the database was made; as a superuser: GRANT EXECUTE ON FUNCTION pg_stat_file(text)", nil
	}
	server := made
	if err := tx.QueryRow(ctx, databaseMadeSQL).Scan(&made, &files); err != nil {
		return nil, "", fmt.Errorf("ask when the database was made: %w", err)
	}
	if files.Time.After(server.Add(makingOfAServer)) && registered.Before(files.Time) {
		return nil, fmt.Sprintf("whether it is a copy: the files of this server are one, as of a standby or after a restore, of %s", pg.Clock(files.Time)), nil
	}
	// The file's time is that of a whole second.
	if registered.Before(made.Truncate(time.Second)) {
		return c.copySymptom(id, registered, "this database", made), "", nil
	}
	return nil, "", nil
}

func (c checks) copySymptom(id string, registered time.Time, what string, made time.Time) []Symptom {
	return []Symptom{{
		Code: "source-copied", Text: fmt.Sprintf("the source %s of %s was registered at %s, and %s was made at %s: it was copied from elsewhere", id, c.table, pg.Clock(registered), what, pg.Clock(made)),
		Why: "if the original is still relayed, a relay here publishes the same events a second time: in a copy for tests, mark them published before one starts",
		Mend: "-- Only where this is no copy any more but the place to which the original was moved:\n" +
			fmt.Sprintf("UPDATE outbox.source SET created_at = now() WHERE id = '%s';", id),
	}}
}
