package checkup

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// oldestVersion is the oldest server that the relay works with, as server_version_num.
const oldestVersion = 140000

func (c checks) version(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error) {
	var number int
	var name string
	err = tx.QueryRow(ctx, `SELECT current_setting('server_version_num')::integer, current_setting('server_version')`).Scan(&number, &name)
	if err != nil {
		return nil, "", fmt.Errorf("ask the server's version: %w", err)
	}
	return versionSymptoms(number, name), "", nil
}

func versionSymptoms(number int, name string) []Symptom {
	if number >= oldestVersion {
		return nil
	}
	return []Symptom{{
		Code: "server-too-old", Grave: true, Text: fmt.Sprintf("the server is PostgreSQL %s", name),
		Why: "statements of the relay need PostgreSQL 14", Mend: "upgrade the server to PostgreSQL 14 or newer",
	}}
}

// clock compares the clocks at the middle of the way to the server and back.
func (c checks) clock(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error) {
	var there time.Time
	sent := c.cfg.Now()
	if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
		return nil, "", fmt.Errorf("ask the server's clock: %w", err)
	}
	way := c.cfg.Now().Sub(sent)
	distance := there.Sub(sent.Add(way / 2))
	if distance.Abs() <= c.cfg.ClockDistance+way/2 {
		return nil, "", nil
	}
	direction := "ahead of"
	if distance < 0 {
		direction = "behind"
	}
	return []Symptom{{
		Code: "clocks-apart", Text: fmt.Sprintf("the database's clock is %s %s this machine's", distance.Abs().Round(time.Second), direction),
		Why:  "leases go by the database's clock alone and are safe; times in logs, and of records in Kafka, do not match those of the rows",
		Mend: "have both machines keep their time by NTP: chronyc tracking says how far each is off",
	}}, "", nil
}

// synchronousCommitSQL are the settings for roles and databases that count here: of roles, those that may write events.
const synchronousCommitSQL = `
SELECT coalesce(r.rolname::text, ''), coalesce(d.datname::text, '')
FROM pg_db_role_setting s
LEFT JOIN pg_roles r ON r.oid = s.setrole
LEFT JOIN pg_database d ON d.oid = s.setdatabase
WHERE (s.setdatabase = 0 OR d.datname = current_database())
  AND (s.setrole = 0 OR has_any_column_privilege(r.oid, $1::text::regclass, 'INSERT'))
  AND EXISTS (SELECT FROM unnest(s.setconfig) v
    WHERE lower(v) = ANY ('{synchronous_commit=off,synchronous_commit=false,synchronous_commit=no,synchronous_commit=0}'))
ORDER BY 1, 2`

func (c checks) synchronousCommit(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error) {
	var setting, from string
	if err := tx.QueryRow(ctx, `SELECT setting, source FROM pg_settings WHERE name = 'synchronous_commit'`).Scan(&setting, &from); err != nil {
		return nil, "", fmt.Errorf("read synchronous_commit: %w", err)
	}
	if setting == "off" && (from == "configuration file" || from == "command line" || from == "environment variable") {
		found = append(found, asynchronous("the server", "-- Overrides the configuration file, for all databases of the server.\nALTER SYSTEM SET synchronous_commit = 'on';\nSELECT pg_reload_conf();"))
	}
	rows, err := tx.Query(ctx, synchronousCommitSQL, c.table.SQL())
	if err != nil {
		return nil, "", fmt.Errorf("read synchronous_commit of roles: %w", err)
	}
	var role, database string
	_, err = pgx.ForEachRow(rows, []any{&role, &database}, func() error {
		found = append(found, asynchronousFor(role, database))
		return nil
	})
	return found, "", err
}

func asynchronousFor(role, database string) Symptom {
	const reset = " RESET synchronous_commit;"
	switch {
	case role == "" && database == "":
		return asynchronous("all roles", "ALTER ROLE ALL"+reset)
	case role == "":
		return asynchronous("the database "+database, "ALTER DATABASE "+quoted(database)+reset)
	case database == "":
		return asynchronous("the role "+role, "ALTER ROLE "+quoted(role)+reset)
	}
	return asynchronous(fmt.Sprintf("the role %s in the database %s", role, database), "ALTER ROLE "+quoted(role)+" IN DATABASE "+quoted(database)+reset)
}

func asynchronous(whom, mend string) Symptom {
	return Symptom{
		Code: "synchronous-commit-off", Text: "synchronous_commit is off for " + whom,
		Why:  "a crash of the server can undo a commit whose event is in Kafka already; sessions that are open keep the old setting",
		Mend: "-- Each commit waits for the disk from then on, and for synchronous standbys if there are any.\n" + mend,
	}
}
