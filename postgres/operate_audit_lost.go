package postgres

import (
	"context"
	"fmt"
)

// auditLost tells of a row a of outbox.audit that its command is gone: it has named neither a job nor a request, which would tell what becomes of it, and has not come to its end in
// a time in which every such command does. Only prune works for long without a job. Should the command be there all the same, it writes over what is written here.
const auditLost = `(a.ended_at IS NULL AND a.job IS NULL AND NOT a.filter ? 'request'
    AND a.at < clock_timestamp() - CASE a.verb WHEN 'prune' THEN interval '24 hours' ELSE interval '1 hour' END)`

// auditUntouched tells that such a command has changed nothing: what these do is done by a job or a request.
const auditUntouched = `a.verb IN ('retry', 'unpark', 'skip', 'dead', 'restore', 'replay')`

// noteOfLostAudit says what became of it, for people.
const noteOfLostAudit = `'its command was killed or cut off: nothing was heard of it after ' || to_char(a.at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC; ' ||
    CASE WHEN ` + auditUntouched + ` THEN 'nothing was changed' ELSE 'what was done by then stays done' END`

// auditLook is how many of the newest rows are looked at: whoever begins a change closes what others have left, so little is left further back.
const auditLook = 10_000

// closeLostAudit completes the rows of commands that died before they began a job.
func closeLostAudit(ctx context.Context, l survey) error {
	_, err := l.tx.Exec(ctx, `
UPDATE outbox.audit a SET affected = CASE WHEN `+auditUntouched+` THEN 0 END, outcome = `+noteOfLostAudit+`, ended_at = clock_timestamp()
WHERE a.id IN (SELECT a.id FROM outbox.audit a WHERE a.source = $1::text::uuid AND a.id > (SELECT max(id) FROM outbox.audit WHERE source = $1::text::uuid) - $2::bigint
    AND `+auditLost+` FOR UPDATE SKIP LOCKED)`, l.row.ID.String(), int64(auditLook))
	if err != nil {
		return fmt.Errorf("close the audit of commands that are gone: %w", err)
	}
	return nil
}
