package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// changeTimeout bounds each statement of a change: none of them reads more than a page.
const changeTimeout = 30 * time.Second

// change runs fn in one transaction with the settings of a look. what is for people.
func (s *Store) change(ctx context.Context, what string, fn func(context.Context, survey) error) error {
	err := pg.InTx(ctx, s.db, func(ctx context.Context, tx pgx.Tx) error {
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
	if _, err := tx.Exec(ctx, lookSettingsSQL, pg.Milliseconds(changeTimeout)); err != nil {
		return l, err
	}
	var err error
	if l.row, err = pg.ReadSource(ctx, tx, s.db.Table); err != nil {
		return l, err
	}
	l.columns, err = pg.ReadColumns(ctx, tx, s.db.Table)
	return l, err
}

// StartAudit implements [operate.Auditor]. Whoever begins a change closes what others have left behind.
func (s *Store) StartAudit(ctx context.Context, a operate.AuditStart) (id int64, err error) {
	// What cannot be closed now is shown as it is all the same, and is no reason to refuse a change.
	_ = s.change(ctx, "close what nobody does any more", closeLost)
	err = s.change(ctx, "write the audit", func(ctx context.Context, l survey) error {
		return l.tx.QueryRow(ctx, `
INSERT INTO outbox.audit (source, actor, verb, filter, reason) VALUES ($1::text::uuid, $2, $3, $4::text::jsonb, $5) RETURNING id`,
			l.row.ID.String(), l.row.Storable(a.Actor), string(a.Verb), string(a.Filter), l.row.Storable(a.Reason)).Scan(&id)
	})
	return id, err
}

// EndAudit implements [operate.Auditor].
func (s *Store) EndAudit(ctx context.Context, id, affected, job int64, outcome string) error {
	return s.change(ctx, "complete the audit", func(ctx context.Context, l survey) error {
		_, err := l.tx.Exec(ctx, `
UPDATE outbox.audit SET affected = $2::bigint, job = coalesce(nullif($3::bigint, 0), job), outcome = $4, ended_at = clock_timestamp() WHERE id = $1::bigint`,
			id, affected, job, l.row.Storable(outcome))
		return err
	})
}
