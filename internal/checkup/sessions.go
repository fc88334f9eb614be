package checkup

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
)

// sessionsSQL are transactions that are open for longer than $2 seconds and have written to the table, or for longer than $3 and keep dead rows from being removed.
// Of a statement only its first word is read: the rest may hold what is in a payload.
const sessionsSQL = `
SELECT a.pid, a.xact_start::text, coalesce(a.usename::text, ''), coalesce(a.application_name, ''), coalesce(a.state, ''),
    upper(coalesce(substring(a.query FROM '^\s*([A-Za-z]+)'), '')), extract(epoch FROM clock_timestamp() - a.xact_start)::float8, k.pid IS NOT NULL
FROM pg_stat_activity a
LEFT JOIN (SELECT DISTINCT l.pid FROM pg_locks l WHERE l.locktype = 'relation' AND l.granted
      AND l.mode IN ('RowExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND l.relation IN (SELECT relid::oid FROM pg_partition_tree($1::text::regclass) UNION SELECT $1::text::regclass::oid)) k ON k.pid = a.pid
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend' AND a.xact_start IS NOT NULL
  AND (k.pid IS NOT NULL AND clock_timestamp() - a.xact_start > $2 * interval '1 second'
    OR a.backend_xmin IS NOT NULL AND clock_timestamp() - a.xact_start > $3 * interval '1 second')
ORDER BY a.xact_start LIMIT 20`

const preparedSQL = `
SELECT gid, owner::text, extract(epoch FROM clock_timestamp() - prepared)::float8 FROM pg_prepared_xacts
WHERE database = current_database() AND clock_timestamp() - prepared > $1 * interval '1 second' ORDER BY prepared LIMIT 20`

func (c checks) sessions(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error) {
	writer, snapshot := c.cfg.OpenWriter.Seconds(), c.cfg.HeldSnapshot.Seconds()
	rows, err := tx.Query(ctx, sessionsSQL, c.table.SQL(), writer, snapshot)
	if err != nil {
		return nil, "", fmt.Errorf("look at open transactions: %w", err)
	}
	var s longSession
	_, err = pgx.ForEachRow(rows, []any{&s.pid, &s.began, &s.user, &s.application, &s.state, &s.verb, &s.age, &s.wrote}, func() error {
		found = append(found, s.symptom(c.table))
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("look at open transactions: %w", err)
	}
	prepared, err := c.prepared(ctx, tx, writer)
	if err != nil {
		return nil, "", fmt.Errorf("look at prepared transactions: %w", err)
	}
	var all bool
	if err := tx.QueryRow(ctx, `SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')`).Scan(&all); err != nil {
		return nil, "", fmt.Errorf("ask what may be seen of sessions: %w", err)
	}
	if !all {
		unseen = "transactions of other roles: GRANT pg_read_all_stats to the role shows them"
	}
	return append(found, prepared...), unseen, nil
}

type longSession struct {
	pid                            int32
	began                          string // of its transaction, as the server writes it
	user, application, state, verb string
	age                            float64
	wrote                          bool
}

func (s longSession) symptom(table pg.Table) Symptom {
	parts := []string{fmt.Sprintf("pid %d", s.pid)}
	for _, p := range []struct{ label, text string }{{"user ", s.user}, {"", s.application}, {"", s.state}, {"last statement ", s.verb}} {
		if p.text != "" {
			parts = append(parts, p.label+p.text)
		}
	}
	who := strings.Join(parts, ", ")
	// By then the session may have begun another transaction, and another session may have its pid.
	mend := "-- Ends the session: what it has not committed is undone. Look first at what it is: a batch, a backup, the making of an index.\n" +
		fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %d AND xact_start = '%s';", s.pid, s.began)
	if s.wrote {
		return Symptom{
			Code: "writer-open-long", Text: fmt.Sprintf("a transaction holds a lock on %s, as one that has written does, since %s (%s)", table, rounded(s.age), who),
			Why: "the ids that it has drawn are waited for, and dead rows stay; migrations and new partitions wait for it", Mend: mend,
		}
	}
	return Symptom{
		Code: "snapshot-held-long", Text: fmt.Sprintf("a transaction is open for %s (%s)", rounded(s.age), who),
		Why: "no row that has died since then can be removed: the table grows, and reads pass more and more dead rows", Mend: mend,
	}
}

// prepared finds transactions that nobody is connected for.
func (c checks) prepared(ctx context.Context, tx pgx.Tx, seconds float64) (found []Symptom, err error) {
	rows, err := tx.Query(ctx, preparedSQL, seconds)
	if err != nil {
		return nil, err
	}
	var gid, owner string
	var age float64
	_, err = pgx.ForEachRow(rows, []any{&gid, &owner, &age}, func() error {
		literal := "'" + strings.ReplaceAll(gid, "'", "''") + "'"
		found = append(found, Symptom{
			Code: "prepared-transaction-old", Text: fmt.Sprintf("the prepared transaction %s of %s waits for its end since %s", gid, owner, rounded(age)),
			Why: "it keeps its locks, and dead rows, over every restart; events in it are neither there nor gone",
			Mend: "its coordinator knows whether it commits: have it end the transaction, or do what it has decided; the other one loses the change and its events, or makes what was given up: " +
				"COMMIT PREPARED " + literal + "; or ROLLBACK PREPARED " + literal + ";",
		})
		return nil
	})
	return found, err
}
