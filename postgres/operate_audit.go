package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/operate"
)

// changeTimeout bounds each statement of a change: none of them reads more than a page.
const changeTimeout = 30 * time.Second

// change runs fn in one transaction with the settings of a look. what is for people.
func (s *Store) change(ctx context.Context, what string, fn func(context.Context, survey) error) error {
	err := inTx(ctx, s.db, func(ctx context.Context, tx pgx.Tx) error {
		l, err := s.begin(ctx, tx)
		if err != nil {
			return err
		}
		return fn(ctx, l)
	})
	if err != nil {
		return s.refusal(ctx, err, what, changeTimeout)
	}
	return nil
}

func (s *Store) begin(ctx context.Context, tx pgx.Tx) (survey, error) {
	l := survey{tx: tx}
	if _, err := tx.Exec(ctx, lookSettingsSQL, milliseconds(changeTimeout)); err != nil {
		return l, err
	}
	var err error
	if l.row, err = readSource(ctx, tx, s.table); err != nil {
		return l, err
	}
	l.columns, err = readColumns(ctx, tx, s.table)
	return l, err
}

// StartAudit implements [operate.Auditor].
func (s *Store) StartAudit(ctx context.Context, a operate.AuditStart) (id int64, err error) {
	err = s.change(ctx, "write the audit", func(ctx context.Context, l survey) error {
		return l.tx.QueryRow(ctx, `
INSERT INTO outbox.audit (source, actor, verb, filter, reason) VALUES ($1::text::uuid, $2, $3, $4::text::jsonb, $5) RETURNING id`,
			l.row.id.String(), l.row.storable(a.Actor), string(a.Verb), string(a.Filter), l.row.storable(a.Reason)).Scan(&id)
	})
	return id, err
}

// EndAudit implements [operate.Auditor].
func (s *Store) EndAudit(ctx context.Context, id, affected, job int64, outcome string) error {
	return s.change(ctx, "complete the audit", func(ctx context.Context, l survey) error {
		_, err := l.tx.Exec(ctx, `
UPDATE outbox.audit SET affected = $2::bigint, job = nullif($3::bigint, 0), outcome = $4, ended_at = clock_timestamp() WHERE id = $1::bigint`,
			id, affected, job, l.row.storable(outcome))
		return err
	})
}

// StartJob implements [operate.JobKeeper].
func (s *Store) StartJob(ctx context.Context, j operate.JobStart) (id int64, err error) {
	err = s.change(ctx, "write down a job", func(ctx context.Context, l survey) error {
		return l.tx.QueryRow(ctx, `
INSERT INTO outbox.job (source, verb, filter, actor, reason, total) VALUES ($1::text::uuid, $2, $3::text::jsonb, $4, $5, $6::bigint) RETURNING id`,
			l.row.id.String(), string(j.Verb), string(j.Filter), l.row.storable(j.Actor), l.row.storable(j.Reason), j.Total).Scan(&id)
	})
	return id, err
}

// ReportJob implements [operate.JobKeeper].
func (s *Store) ReportJob(ctx context.Context, id, done, failed int64) (cancelled bool, err error) {
	err = s.change(ctx, "write down how far a job is", func(ctx context.Context, l survey) error {
		return l.tx.QueryRow(ctx, `
UPDATE outbox.job SET done = $2::bigint, failed = $3::bigint, seen_at = clock_timestamp() WHERE id = $1::bigint RETURNING state <> 'running'`, id, done, failed).
			Scan(&cancelled)
	})
	return cancelled, err
}

// EndJob implements [operate.JobKeeper].
func (s *Store) EndJob(ctx context.Context, id, done, failed int64, state, note string) error {
	return s.change(ctx, "write down the end of a job", func(ctx context.Context, l survey) error {
		_, err := l.tx.Exec(ctx, `
UPDATE outbox.job SET done = $2::bigint, failed = $3::bigint, state = CASE state WHEN 'running' THEN $4 ELSE state END,
    note = concat_ws(': ', nullif(note, ''), $5::text),
    seen_at = clock_timestamp(), ended_at = clock_timestamp()
WHERE id = $1::bigint`, id, done, failed, state, l.row.storable(note))
		return err
	})
}

// CancelJob implements [operate.JobKeeper]. A relay that carries out requests of the job at this moment may lock them in another order: whoever
// loses tries again.
func (s *Store) CancelJob(ctx context.Context, id int64, by string) (err error) {
	for range 5 {
		if err = s.cancelJob(ctx, id, by); !isConflict(err) {
			return err
		}
	}
	return err
}

func (s *Store) cancelJob(ctx context.Context, id int64, by string) error {
	var state string
	err := s.change(ctx, "cancel a job", func(ctx context.Context, l survey) error {
		by = l.row.storable(by)
		err := l.tx.QueryRow(ctx, `SELECT state FROM outbox.job WHERE id = $1::bigint AND source = $2::text::uuid FOR UPDATE`, id, l.row.id.String()).Scan(&state)
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
