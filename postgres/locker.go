package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// Whoever locks a row leaves its transaction's id there, and has a lock on that id until it ends. Of several that share the lock the row has another kind of number, of
// which nothing is found. What another role does, the server shows to members of pg_monitor.

// lockerColumns are those of a locker, joined by lockerJoin; the pid is -1 when it was not found.
const (
	lockerColumns = `CASE WHEN k.transactionid IS NULL THEN -1 ELSE coalesce(k.pid, 0) END, coalesce(a.usename::text, ''), coalesce(a.application_name, ''),
    coalesce(a.state, ''), a.xact_start, a.query_start`
	lockerJoin = `
LEFT JOIN pg_locks k ON k.locktype = 'transactionid' AND k.mode = 'ExclusiveLock' AND k.granted AND k.transactionid = t.locker
LEFT JOIN pg_stat_activity a ON a.pid = k.pid`
)

// locker is who has a row locked, as it is scanned.
type locker struct {
	operate.Writer
	began, query *time.Time
}

func (l *locker) targets() []any {
	return []any{&l.PID, &l.User, &l.Application, &l.State, &l.began, &l.query}
}

// known is who it is; false when nothing was found.
func (l *locker) known() (operate.Writer, bool) {
	w := l.Writer
	w.Began, w.QueryAt = timeOrZero(l.began), timeOrZero(l.query)
	return w, w.PID >= 0
}

// text names who has a row locked that could not be taken.
func (l *locker) text() string {
	if w, known := l.known(); known {
		return writerText(w)
	}
	return "several sessions at once, or one that has just ended: pg_locks and pg_stat_activity show who is in a transaction"
}

// whyLocked finds who has the row of an unpublished event locked. The relays' own have it only while they settle or move it.
func (l survey) whyLocked(ctx context.Context, d *operate.EventDetail) ([]operate.Reason, error) {
	var who locker
	err := l.tx.QueryRow(ctx, fmt.Sprintf(`
SELECT %s FROM (SELECT t.xmax AS locker FROM %s t WHERE t.id = $1::bigint AND t.event_id = $2::text::uuid AND t.published_at IS NULL LIMIT 1) t%s
WHERE k.transactionid IS NOT NULL AND NOT %s`, lockerColumns, l.row.Table.SQL(), lockerJoin, pg.OfRelay),
		d.ID, d.EventID.String()).Scan(who.targets()...)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w, _ := who.known()
	return []operate.Reason{{
		Code: operate.ReasonRowLocked, Since: w.Began, Writer: &w,
		Text: "its row is locked, so that no relay can mark it as published, nor move it if it has failed, before that transaction ends: " + writerText(w),
	}}, nil
}
