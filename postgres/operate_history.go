package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/operate"
)

// historyStream is the only stream of the audit and of the jobs, in their cursors.
const historyStream = "h"

// history writes the conditions of a list by id, the newest first, and reads its cursor.
type history struct {
	query
	list        []string
	fingerprint []byte
}

func (l survey) history(after string, parts ...any) (*history, error) {
	h := &history{fingerprint: fingerprint(parts...)}
	h.list = []string{"source = " + h.param(l.row.ID, "uuid")}
	c, err := parseCursor(after, h.fingerprint, []string{historyStream})
	if from := c.Streams[historyStream]; from != nil {
		h.list = append(h.list, "id < "+h.param(from.ID, "bigint"))
	}
	return h, err
}

// cutPage cuts what was read one too many, and makes the cursor of what follows.
func cutPage[T any](h *history, found []T, limit int, id func(T) int64) (page []T, next string) {
	if len(found) <= limit {
		return append([]T{}, found...), ""
	}
	found = found[:limit]
	return found, cursor{h.fingerprint, map[string]*position{historyStream: {ID: id(found[limit-1])}}}.String()
}

// Audit implements [operate.Lookups], over the index audit_source. What a command has left open is completed by the request that the row names, or by the
// job's end; a row that names neither, as it will be once somebody closes it.
func (s *Store) Audit(ctx context.Context, limit time.Duration, q operate.AuditQuery) (operate.AuditPage, error) {
	return see(ctx, s, limit, "list the audit", func(ctx context.Context, l survey) (operate.AuditPage, error) {
		h, err := l.history(q.After, "audit", q.Actor, q.Verb, q.Job, q.MaxAge)
		if err != nil {
			return operate.AuditPage{}, err
		}
		h.list = append(append(h.list, h.equal("actor", q.Actor)...), h.equal("verb", q.Verb)...)
		if q.Job != 0 {
			h.list = append(h.list, "job = "+h.param(q.Job, "bigint"))
		}
		h.list = append(h.list, h.ages("at", 0, q.MaxAge)...)
		rows, err := l.tx.Query(ctx, fmt.Sprintf(`
SELECT a.id, a.at, a.actor, a.verb, a.filter::text, a.reason, coalesce(a.job, 0),
    CASE WHEN a.ended_at IS NULL AND r.done_at IS NOT NULL THEN (r.error IS NULL)::integer WHEN `+auditLost+` AND `+auditUntouched+` THEN 0 ELSE coalesce(a.affected, j.done) END,
    coalesce(a.outcome, r.error, r.outcome, 'request ' || r.id || ' is open, and may still be carried out', j.note, CASE WHEN `+auditLost+` THEN `+noteOfLostAudit+` END, ''), coalesce(a.ended_at, r.done_at, j.over, CASE WHEN `+auditLost+` THEN a.at END)
FROM (SELECT * FROM outbox.audit WHERE %s ORDER BY id DESC LIMIT %d) a
LEFT JOIN outbox.request r ON a.ended_at IS NULL AND r.id = (a.filter->>'request')::bigint AND r.source = a.source
LEFT JOIN LATERAL (`+endOfJob+`) j ON true
ORDER BY a.id DESC`, strings.Join(h.list, " AND "), q.Limit+1), h.args...)
		if err != nil {
			return operate.AuditPage{}, err
		}
		found, err := pgx.CollectRows(rows, scanAudit)
		var p operate.AuditPage
		p.Entries, p.Next = cutPage(h, found, q.Limit, func(e operate.AuditEntry) int64 { return e.ID })
		return p, err
	})
}

func scanAudit(row pgx.CollectableRow) (e operate.AuditEntry, err error) {
	var filter string
	var ended *time.Time
	err = row.Scan(&e.ID, &e.At, &e.Actor, &e.Verb, &filter, &e.Reason, &e.Job, &e.Affected, &e.Outcome, &ended)
	e.At, e.Filter, e.EndedAt = e.At.UTC(), []byte(filter), timeOrZero(ended)
	return e, err
}

// endOfJob is how the job of an audit row a ended that its command has not completed: no row while it goes on.
var endOfJob = `SELECT c.done, CASE WHEN j.state = 'running' THEN ` + noteOfLost + ` ELSE j.note END AS note, coalesce(j.ended_at, j.seen_at) AS over
    FROM outbox.job j CROSS JOIN LATERAL ` + countsOfJob(jobLost) + ` c WHERE a.ended_at IS NULL AND j.id = a.job AND NOT ` + jobGoesOn

// Jobs implements [operate.Lookups]. One that nobody runs any more is shown as it will be once somebody closes it.
func (s *Store) Jobs(ctx context.Context, limit time.Duration, q operate.JobQuery) (operate.JobPage, error) {
	return see(ctx, s, limit, "list jobs", func(ctx context.Context, l survey) (operate.JobPage, error) {
		h, err := l.history(q.After, "jobs", q.State, q.Verb, q.Actor)
		if err != nil {
			return operate.JobPage{}, err
		}
		if q.State != "" {
			h.list = append(h.list, h.equal("CASE WHEN "+jobLost+" THEN 'failed' ELSE j.state END", &q.State)...)
		}
		h.list = append(append(h.list, h.equal("verb", q.Verb)...), h.equal("actor", q.Actor)...)
		rows, err := l.tx.Query(ctx, fmt.Sprintf(`
SELECT j.id, j.verb, j.filter::text, j.actor, j.reason, j.total, c.done, c.failed, CASE WHEN j.lost THEN 'failed' ELSE j.state END,
    CASE WHEN j.lost THEN `+noteOfLost+` ELSE j.note END, j.started_at, j.seen_at, j.ended_at
FROM (SELECT j.*, `+jobLost+` AS lost FROM outbox.job j WHERE %s ORDER BY j.id DESC LIMIT %d) j
CROSS JOIN LATERAL `+countsOfJob("j.lost")+` c ORDER BY j.id DESC`, strings.Join(h.list, " AND "), q.Limit+1), h.args...)
		if err != nil {
			return operate.JobPage{}, err
		}
		found, err := pgx.CollectRows(rows, scanJob)
		if err != nil {
			return operate.JobPage{}, err
		}
		var p operate.JobPage
		p.Jobs, p.Next = cutPage(h, found, q.Limit, func(j operate.JobEntry) int64 { return j.ID })
		return p, l.addOpenRequests(ctx, q, &p)
	})
}

func scanJob(row pgx.CollectableRow) (j operate.JobEntry, err error) {
	var filter string
	var ended *time.Time
	err = row.Scan(&j.ID, &j.Verb, &filter, &j.Actor, &j.Reason, &j.Total, &j.Done, &j.Failed, &j.State, &j.Note, &j.StartedAt, &j.SeenAt, &ended)
	j.StartedAt, j.SeenAt, j.Filter, j.EndedAt = j.StartedAt.UTC(), j.SeenAt.UTC(), []byte(filter), timeOrZero(ended)
	return j, err
}
