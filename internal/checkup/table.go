package checkup

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
)

const (
	// idSample is how many of the newest event ids are looked at, and idLeast from how many on they say anything.
	idSample, idLeast = 1000, 50
)

// eventIDs finds ids without a time in them, in bulk.
func (c checks) eventIDs(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error) {
	var all, random int64
	err = tx.QueryRow(ctx, fmt.Sprintf(`
SELECT count(*), count(*) FILTER (WHERE substr(event_id::text, 15, 1) = '4') FROM (SELECT event_id FROM %s ORDER BY id DESC LIMIT %d) e`,
		c.table.SQL(), idSample)).Scan(&all, &random)
	if err != nil {
		return nil, "", fmt.Errorf("look at the newest event ids: %w", err)
	}
	if all < idLeast || random*2 < all {
		return nil, "", nil
	}
	return []Symptom{{
		Code: "event-ids-random", Text: fmt.Sprintf("of the newest %d events %d have a random id (UUID version 4)", all, random),
		Why:  "each goes to another page of the unique index, which costs WAL and memory, the more the larger the table is",
		Mend: "have the writers make ids of version 7, as package outbox does; the rows that are there stay as they are",
	}}, "", nil
}

const triggersSQL = `
SELECT t.tgname::text, p.oid::regprocedure::text, (t.tgtype & 1) = 1, p.prosrc ~* '\mnotify\M|pg_notify'
FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = $1::text::regclass AND NOT t.tgisinternal AND t.tgenabled <> 'D' ORDER BY 1`

func (c checks) triggers(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error) {
	rows, err := tx.Query(ctx, triggersSQL, c.table.SQL())
	if err != nil {
		return nil, "", fmt.Errorf("look at triggers: %w", err)
	}
	var name, function string
	var eachRow, notifies bool
	_, err = pgx.ForEachRow(rows, []any{&name, &function, &eachRow, &notifies}, func() error {
		s := Symptom{Mend: fmt.Sprintf("look at what the function %s is for, such as an audit; where nobody needs it any more: ALTER TABLE %s DISABLE TRIGGER %s;", function, c.table.SQL(), quoted(name))}
		switch {
		case notifies:
			s.Code, s.Text = "trigger-notifies", fmt.Sprintf("the trigger %s of %s calls NOTIFY", name, c.table)
			s.Why = "a transaction that has notified commits alone in the whole server: writers wait for each other; the relay does not listen, and finds events without it"
		case eachRow:
			s.Code, s.Text = "trigger-each-row", fmt.Sprintf("the trigger %s of %s runs for each row", name, c.table)
			s.Why = "it makes each event dearer to write, and each settle as well if it is for UPDATE; one that fails keeps events from being written or settled"
		default:
			return nil
		}
		found = append(found, s)
		return nil
	})
	return found, "", err
}

// vacuumSQL are the table, or its partitions, and the relay's own tables.
const vacuumSQL = `
SELECT n.nspname::text, c.relname::text, coalesce(s.n_dead_tup, 0), coalesce(s.n_live_tup, 0),
    coalesce(o.enabled, true),
    (coalesce(o.threshold, current_setting('autovacuum_vacuum_threshold')::float8)
        + coalesce(o.scale, current_setting('autovacuum_vacuum_scale_factor')::float8) * greatest(c.reltuples, 0))::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
CROSS JOIN LATERAL (SELECT
    max(option_value) FILTER (WHERE option_name = 'autovacuum_enabled')::boolean AS enabled,
    max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_threshold')::float8 AS threshold,
    max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_scale_factor')::float8 AS scale
    FROM pg_options_to_table(c.reloptions)) o
WHERE c.relkind = 'r' AND (n.nspname = 'outbox' OR c.oid = $1::text::regclass OR c.oid IN (SELECT relid FROM pg_partition_tree($1::text::regclass)))
ORDER BY 1, 2`

func (c checks) vacuum(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error) {
	var running bool
	if err := tx.QueryRow(ctx, `SELECT current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean`).Scan(&running); err != nil {
		return nil, "", fmt.Errorf("ask for autovacuum: %w", err)
	}
	if !running {
		found = append(found, noVacuum("for the whole server", "-- Overrides the configuration file; tables of all databases that have waited are vacuumed at once.\nALTER SYSTEM SET autovacuum = 'on';\nALTER SYSTEM SET track_counts = 'on';\nSELECT pg_reload_conf();"))
	}
	rows, err := tx.Query(ctx, vacuumSQL, c.table.SQL())
	if err != nil {
		return nil, "", fmt.Errorf("look at dead rows: %w", err)
	}
	var t pg.Table
	var dead, live, waits int64
	var enabled bool
	_, err = pgx.ForEachRow(rows, []any{&t.Schema, &t.Name, &dead, &live, &enabled, &waits}, func() error {
		switch {
		case !enabled:
			s := noVacuum("for "+t.String(), fmt.Sprintf("ALTER TABLE %s RESET (autovacuum_enabled);", t.SQL()))
			s.SQL = true
			found = append(found, s)
		case waits > 10*c.cfg.DeadRows:
			found = append(found, Symptom{
				Code: "autovacuum-late", Text: fmt.Sprintf("autovacuum of %s waits for %d dead rows", t, waits),
				Why:  "reads pass the dead rows until then, and one vacuum of so many takes long",
				Mend: fmt.Sprintf("ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = %d);", t.SQL(), c.cfg.DeadRows), SQL: true,
			})
		}
		if dead > c.cfg.DeadRows && dead*5 > dead+live {
			found = append(found, Symptom{
				Code: "dead-rows", Text: fmt.Sprintf("%s has %d dead rows, and %d live ones", t, dead, live),
				Why: "reads pass them, and the table grows; a transaction that is open for long keeps them from being removed",
				Mend: "-- Reads the whole table while the traffic goes on. It gives no room back to the disk, for which it would lock the table.\n" +
					fmt.Sprintf("VACUUM (ANALYZE, TRUNCATE off) %s;", t.SQL()), SQL: true,
			})
		}
		return nil
	})
	return found, "", err
}

func noVacuum(where, mend string) Symptom {
	return Symptom{
		Code: "autovacuum-off", Text: "autovacuum is off " + where, Why: "each settle leaves a dead row behind: without it they are never removed, and reads pass more and more of them",
		Mend: mend,
	}
}
