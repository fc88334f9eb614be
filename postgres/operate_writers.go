package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// maxWriters is how many open transactions are named, the oldest.
const maxWriters = 5

// writersSQL are the transactions that have written to the table and are open: those that hold the lock that an INSERT takes, as the reader asks for
// them. The relay's own have it only while they settle. What another role does, the server shows to members of pg_monitor. The text of
// a statement is not asked for: it may hold what is in a payload.
const writersSQL = `
SELECT coalesce(k.pid, 0), coalesce(a.usename::text, ''), coalesce(a.application_name, ''), coalesce(a.state, ''), a.xact_start, a.query_start
FROM (SELECT DISTINCT pid, virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (relation = $1::text::regclass OR relation = ANY (ARRAY(SELECT relid::oid FROM pg_partition_tree($1::text::regclass))))) k
LEFT JOIN pg_stat_activity a ON a.pid = k.pid
WHERE NOT ` + pg.OfRelay + `
ORDER BY a.xact_start NULLS LAST, k.pid LIMIT $2`

func (l survey) writers(ctx context.Context) ([]operate.Writer, error) {
	rows, err := l.tx.Query(ctx, writersSQL, l.row.Table.SQL(), maxWriters)
	if err != nil {
		return nil, fmt.Errorf("look for open writers: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (w operate.Writer, err error) {
		var began, query *time.Time
		err = row.Scan(&w.PID, &w.User, &w.Application, &w.State, &began, &query)
		w.Began, w.QueryAt = timeOrZero(began), timeOrZero(query)
		return w, err
	})
}

// writerText names a writer: "pid 4711, user shop, shop-api, idle in transaction, open since 2026-01-02 03:04:05Z".
func writerText(w operate.Writer) string {
	if w.PID == 0 {
		return "a prepared transaction: see pg_prepared_xacts"
	}
	parts := []string{fmt.Sprintf("pid %d", w.PID)}
	if w.User != "" {
		parts = append(parts, "user "+w.User)
	}
	for _, text := range []string{w.Application, w.State} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if !w.Began.IsZero() {
		parts = append(parts, "open since "+pg.Clock(w.Began))
	}
	if !w.QueryAt.IsZero() {
		parts = append(parts, "last statement at "+pg.Clock(w.QueryAt))
	}
	if w.State == "" {
		parts = append(parts, "the role may not see more: GRANT pg_read_all_stats")
	}
	return strings.Join(parts, ", ")
}
