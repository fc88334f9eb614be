package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// jobGoesOn tells of a row j of outbox.job that somebody runs it.
var jobGoesOn = pg.JobGoesOn("j")

// jobLost is the other way for a job to be over than an end that was written down.
var jobLost = `(j.state = 'running' AND NOT ` + jobGoesOn + `)`

// noteOfLost says what became of such a job, for people.
const noteOfLost = `'its command was killed or cut off: nobody has seen it since ' || to_char(j.seen_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC; what was done by then stays done, the rest was left alone' || coalesce('; ' || nullif(j.note, ''), '')`

// jobIsOver is what the requests of a job say that were left open when it was over.
const jobIsOver = "its job is over: it has ended, or its command was killed or cut off"

// countsOfJob is how far a job j truly is, done and failed, by its requests: whoever ran it may have died before he wrote it down. A replay has no requests. It
// relies on the index request_job, and is cheap where the condition, of j, is false.
func countsOfJob(condition string) string {
	return `(SELECT greatest(j.done, count(*) FILTER (WHERE q.error IS NULL OR q.outcome = 'already done')) AS done,
    greatest(j.failed, count(*) FILTER (WHERE q.error IS NOT NULL AND q.outcome NOT IN ('already done', 'not found', 'cancelled'))) AS failed
    FROM outbox.request q WHERE q.job = j.id AND q.done_at IS NOT NULL AND ` + condition + `)`
}

// closeLost ends what commands have left behind that are gone.
func closeLost(ctx context.Context, l survey) error {
	return firstError(closeLostJobs(ctx, l), closeLostAudit(ctx, l))
}

// closeLostJobs ends the jobs that nobody runs any more: it closes their requests, and then counts what was done, so that the job and its audit say what is true. A relay that
// carries out some of the requests at this moment is waited for.
func closeLostJobs(ctx context.Context, l survey) error {
	rows, err := l.tx.Query(ctx, `SELECT j.id FROM outbox.job j WHERE j.source = $1::text::uuid AND `+jobLost+` ORDER BY j.id FOR UPDATE SKIP LOCKED`, l.row.ID.String())
	if err != nil {
		return fmt.Errorf("look for jobs that nobody runs: %w", err)
	}
	lost, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(lost) == 0 {
		return err
	}
	for _, sql := range []string{`
UPDATE outbox.request SET done_at = clock_timestamp(), outcome = 'cancelled', error = '` + jobIsOver + `' WHERE job = ANY ($1::bigint[]) AND done_at IS NULL`, `
WITH ended AS (
    UPDATE outbox.job j SET state = 'failed', note = ` + noteOfLost + `, (done, failed) = ` + countsOfJob("true") + `, ended_at = clock_timestamp()
    WHERE j.id = ANY ($1::bigint[]) RETURNING j.source, j.id, j.done, j.note
)
UPDATE outbox.audit a SET affected = e.done, outcome = e.note, ended_at = clock_timestamp() FROM ended e WHERE a.source = e.source AND a.job = e.id AND a.ended_at IS NULL`} {
		if _, err := l.tx.Exec(ctx, sql, lost); err != nil {
			return fmt.Errorf("close jobs that nobody runs: %w", err)
		}
	}
	return nil
}

// StartJob implements [operate.JobKeeper].
func (s *Store) StartJob(ctx context.Context, j operate.JobStart) (id int64, err error) {
	err = s.change(ctx, "write down a job", func(ctx context.Context, l survey) error {
		return l.tx.QueryRow(ctx, `
WITH started AS (
    INSERT INTO outbox.job (source, verb, filter, actor, reason, total) VALUES ($1::text::uuid, $2, $3::text::jsonb, $4, $5, $6::bigint) RETURNING id
), noted AS (
    UPDATE outbox.audit a SET job = started.id, affected = NULL, outcome = NULL, ended_at = NULL FROM started WHERE a.id = $7::bigint
) SELECT id FROM started`,
			l.row.ID.String(), string(j.Verb), string(j.Filter), l.row.Storable(j.Actor), l.row.Storable(j.Reason), j.Total, j.Audit).Scan(&id)
	})
	return id, err
}

// ReportJob implements [operate.JobKeeper].
func (s *Store) ReportJob(ctx context.Context, id, done, failed int64, note string) (cancelled bool, err error) {
	err = s.change(ctx, "write down how far a job is", func(ctx context.Context, l survey) error {
		return l.tx.QueryRow(ctx, `
UPDATE outbox.job j SET done = $2::bigint, failed = $3::bigint, seen_at = CASE WHEN `+jobGoesOn+` THEN clock_timestamp() ELSE seen_at END,
    note = CASE WHEN `+jobGoesOn+` AND $4::text <> '' THEN $4::text ELSE note END
WHERE id = $1::bigint RETURNING NOT `+jobGoesOn, id, done, failed, l.row.Storable(note)).Scan(&cancelled)
	})
	return cancelled, err
}

// SeeJob implements [operate.JobKeeper].
func (s *Store) SeeJob(ctx context.Context, id int64) error {
	return s.change(ctx, "write down that a job goes on", func(ctx context.Context, l survey) error {
		_, err := l.tx.Exec(ctx, `UPDATE outbox.job j SET seen_at = clock_timestamp() WHERE id = $1::bigint AND `+jobGoesOn, id)
		return err
	})
}

// EndJob implements [operate.JobKeeper].
func (s *Store) EndJob(ctx context.Context, id, done, failed int64, state, note string) error {
	return s.change(ctx, "write down the end of a job", func(ctx context.Context, l survey) error {
		_, err := l.tx.Exec(ctx, `
UPDATE outbox.job SET done = $2::bigint, failed = $3::bigint, state = CASE state WHEN 'running' THEN $4 ELSE state END,
    note = CASE state WHEN 'running' THEN $5::text ELSE concat_ws(': ', nullif(note, ''), $5::text) END,
    seen_at = clock_timestamp(), ended_at = clock_timestamp()
WHERE id = $1::bigint`, id, done, failed, state, l.row.Storable(note))
		return err
	})
}

// CancelJob implements [operate.JobKeeper]. A relay that carries out requests of the job at this moment may lock them in another order: whoever
// loses tries again.
func (s *Store) CancelJob(ctx context.Context, id int64, by string) (err error) {
	for range 5 {
		if err = s.cancelJob(ctx, id, by); !pg.IsConflict(err) {
			return err
		}
	}
	return err
}

func (s *Store) cancelJob(ctx context.Context, id int64, by string) error {
	var state string
	err := s.change(ctx, "cancel a job", func(ctx context.Context, l survey) error {
		by = l.row.Storable(by)
		if err := closeLost(ctx, l); err != nil {
			return err
		}
		err := l.tx.QueryRow(ctx, `SELECT state FROM outbox.job WHERE id = $1::bigint AND source = $2::text::uuid FOR UPDATE`, id, l.row.ID.String()).Scan(&state)
		if errors.Is(err, pgx.ErrNoRows) {
			return operate.Refuse(operate.CodeNotFound, "there is no job %d; outbox jobs list shows them", id)
		}
		if err != nil {
			return err
		}
		if _, err := l.tx.Exec(ctx, `
UPDATE outbox.job SET state = 'cancelled', note = $2, ended_at = clock_timestamp() WHERE id = $1::bigint AND state = 'running'`, id, "cancelled by "+by); err != nil {
			return err
		}
		_, err = l.tx.Exec(ctx, `
UPDATE outbox.request SET done_at = clock_timestamp(), outcome = 'cancelled', error = $2 WHERE job = $1::bigint AND done_at IS NULL`, id, "cancelled by "+by)
		return err
	})
	if err == nil && state != "running" {
		return operate.Refuse(operate.CodeConflict, "job %d is %s already", id, state)
	}
	return err
}
