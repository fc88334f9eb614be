package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// executor is a pool, a connection or a transaction.
type executor interface {
	pg.Querier
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// retainTTL is how long a relay that deletes is the only one. Two at the same time would do no harm: it would be work for nothing.
const retainTTL = time.Minute

// retainer is who deletes what is old: one relay of a source at a time, by outbox.retention.
type retainer struct {
	owner uuid.UUID
	name  string
}

// claim makes the retainer the one for a minute, and returns "" then; else the name of the one that is.
func (r retainer) claim(ctx context.Context, db executor, row pg.Source, rules operate.Prune) (other string, err error) {
	var older, dead, audit *time.Duration
	var keep int64
	if rules.Events != nil {
		older, keep = &rules.Events.OlderThan, rules.Events.Keep
	}
	dead, audit = rules.Dead, rules.Audit
	tag, err := db.Exec(ctx, `
INSERT INTO outbox.retention AS r (source, owner, name, older_than, keep, dead_older_than, audit_older_than, expires_at)
VALUES ($1, $2, $3, $4::bigint * interval '1 microsecond', $5, $6::bigint * interval '1 microsecond', $7::bigint * interval '1 microsecond',
    clock_timestamp() + $8::bigint * interval '1 microsecond')
ON CONFLICT (source) DO UPDATE SET owner = excluded.owner, name = excluded.name, older_than = excluded.older_than, keep = excluded.keep,
    dead_older_than = excluded.dead_older_than, audit_older_than = excluded.audit_older_than, expires_at = excluded.expires_at
WHERE r.owner = excluded.owner OR r.expires_at <= clock_timestamp()`,
		row.ID, r.owner, pg.Storable(r.name), inMicroseconds(older), keep, inMicroseconds(dead), inMicroseconds(audit), retainTTL.Microseconds())
	if err != nil || tag.RowsAffected() > 0 {
		return "", err
	}
	err = db.QueryRow(ctx, `SELECT name FROM outbox.retention WHERE source = $1`, row.ID).Scan(&other)
	if errors.Is(err, pgx.ErrNoRows) {
		return "another relay", nil
	}
	return other, err
}

func inMicroseconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	us := d.Microseconds()
	return &us
}

// leave lets the next one begin at once.
func (r retainer) leave(ctx context.Context, db executor, row pg.Source) error {
	_, err := db.Exec(ctx, `UPDATE outbox.retention SET expires_at = clock_timestamp() WHERE source = $1 AND owner = $2 AND expires_at > clock_timestamp()`, row.ID, r.owner)
	return err
}

// noteRetention writes down that settled events were deleted now, and how many.
func noteRetention(ctx context.Context, db executor, row pg.Source, deleted int64) error {
	_, err := db.Exec(ctx, `
INSERT INTO outbox.retention AS r (source, owner, name, expires_at, pruned, pruned_at) VALUES ($1, $2, 'outbox prune', '-infinity', $3, clock_timestamp())
ON CONFLICT (source) DO UPDATE SET pruned = r.pruned + excluded.pruned, pruned_at = excluded.pruned_at`, row.ID, uuid.Nil, deleted)
	if err != nil {
		return fmt.Errorf("write down that %s is pruned: %w", row.Table, pruneTrouble(db, err, row))
	}
	return nil
}
