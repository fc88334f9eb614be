package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// lookSQL reads no more than the lanes, the relays, what is paused, the migrations, and the index request_open: an idle relay asks it several times a second.
// A newcomer that has not reported for two seconds is gone: relays that wait report at each look.
func lookSQL() string {
	return `
WITH other AS MATERIALIZED (
    SELECT owner, standing, seen_at, proved_at,
           EXISTS (SELECT FROM outbox.lane l WHERE l.source = $1 AND l.owner = r.owner AND l.expires_at > clock_timestamp()) AS works
    FROM outbox.relay r WHERE source = $1 AND owner <> $2 AND mode = 'leased' AND expires_at > clock_timestamp()
)
SELECT (SELECT count(*) FROM other WHERE standing = 2) + 1,
       EXISTS (SELECT FROM other WHERE standing = 1 AND NOT works AND seen_at > clock_timestamp() - interval '2 seconds')
           AND NOT EXISTS (SELECT FROM other WHERE standing < 2 AND works),
       coalesce((SELECT extract(epoch FROM clock_timestamp() - max(proved_at)) * 1000000 FROM other WHERE standing > 0), 0)::bigint,
       (SELECT count(*) FROM outbox.lane WHERE source = $1 AND (owner IS NULL OR expires_at <= clock_timestamp())),
       EXISTS (SELECT FROM outbox.request WHERE source = $1 AND done_at IS NULL),
       coalesce(h.owner, '00000000-0000-0000-0000-000000000000'), coalesce(r.name, ''), coalesce(r.version, ''),
       coalesce(greatest(0, extract(epoch FROM h.expires_at - clock_timestamp()) * 1000000), 0)::bigint, ` + pausesNameSQL + `, ` + pg.OutgrownSQL() + `
FROM (SELECT) one
LEFT JOIN LATERAL (
    SELECT owner, expires_at FROM outbox.lane WHERE source = $1 AND owner <> $2 AND expires_at > clock_timestamp()
    ORDER BY expires_at DESC LIMIT 1) h ON true
LEFT JOIN outbox.relay r ON r.source = $1 AND r.owner = h.owner`
}

// Look implements [relay.Leases]. It refuses a schema that has outgrown this program since it was opened.
func (l *leases) Look(ctx context.Context, owner relay.Owner) (relay.View, error) {
	var v relay.View
	var proved, us int64
	var outgrown *string
	err := l.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, lookSQL(), l.row.ID, owner.ID).
			Scan(&v.Relays, &v.Newcomer, &proved, &v.Free, &v.Requests, &v.Holder.ID, &v.Holder.Name, &v.Holder.Version, &us, &v.Pauses, &outgrown)
	})
	if err == nil {
		err = pg.RefuseOutgrown(outgrown)
	}
	if err != nil {
		return relay.View{}, fmt.Errorf("look at the lanes of %s: %w", l.row.Table, err)
	}
	v.Proved, v.Expires = pg.Microseconds(proved), pg.Microseconds(us)
	return v, nil
}

// Report implements [relay.Leases]. The proof of an earlier time that arrives late takes nothing back.
func (l *leases) Report(ctx context.Context, owner relay.Owner, r relay.Report) error {
	err := l.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
UPDATE outbox.relay SET seen_at = clock_timestamp(), standing = greatest(standing, $3::smallint),
    proved_at = greatest(proved_at, clock_timestamp() - $4::bigint * interval '1 microsecond'),
    silent_since = clock_timestamp() - $5::bigint * interval '1 microsecond'
WHERE source = $1 AND owner = $2`, l.row.ID, owner.ID, int16(r.Standing), orNull(r.Proved), orNull(r.Silent))
		return err
	})
	switch {
	case pg.IsReadOnly(err):
		return fmt.Errorf("report to the relays of %s: the server is read-only now: %w", l.row.Table, relay.ErrServerChanged)
	case err != nil:
		return fmt.Errorf("report to the relays of %s: %w", l.row.Table, err)
	}
	return nil
}

// StandBy implements [relay.Leases].
func (l *leases) StandBy(ctx context.Context, owner relay.Owner, ttl time.Duration, r relay.Report) error {
	err := pg.InTx(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
		if err := register(ctx, tx, l.row.ID, owner, ttl); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
UPDATE outbox.relay SET standing = 0, proved_at = greatest(proved_at, clock_timestamp() - $3::bigint * interval '1 microsecond'),
    silent_since = clock_timestamp() - $4::bigint * interval '1 microsecond'
WHERE source = $1 AND owner = $2`, l.row.ID, owner.ID, orNull(r.Proved), orNull(r.Silent))
		return err
	})
	if err != nil {
		return fmt.Errorf("stand by at %s: %w", l.row.Table, err)
	}
	return nil
}

// orNull is a time in microseconds, and NULL for none.
func orNull(d time.Duration) *int64 {
	if d <= 0 {
		return nil
	}
	us := d.Microseconds()
	return &us
}

// renewSQL prolongs the lanes that are still the owner's at the given epochs, all or none.
const renewSQL = `
WITH held AS MATERIALIZED (
    SELECT l.lane FROM outbox.lane l JOIN unnest($3::integer[], $4::bigint[]) c(lane, epoch) ON c.lane = l.lane
    WHERE l.source = $1 AND l.owner = $2 AND l.epoch = c.epoch ORDER BY l.lane FOR UPDATE OF l
), renewed AS (
    UPDATE outbox.lane l SET expires_at = clock_timestamp() + $5::bigint * interval '1 microsecond'
    FROM held WHERE l.source = $1 AND l.lane = held.lane
      AND (SELECT count(*) FROM held) = cardinality($3::integer[])
    RETURNING 1
), seen AS (
    UPDATE outbox.relay SET seen_at = clock_timestamp(), expires_at = clock_timestamp() + $5::bigint * interval '1 microsecond'
    WHERE source = $1 AND owner = $2
)
SELECT (SELECT count(*) FROM renewed), ` + serverSQL

// Renew implements [relay.Leases].
func (l *leases) Renew(ctx context.Context, claim relay.Claim, ttl time.Duration) error {
	var renewed int
	var at server
	err := l.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, renewSQL, l.row.ID, claim.Owner.ID, claim.Lanes, claim.Epochs, ttl.Microseconds()).
			Scan(&renewed, &at.started, &at.timeline, &at.recovery)
	})
	switch {
	case pg.IsReadOnly(err):
		return fmt.Errorf("renew the lease of %s: the server is read-only now: %w", l.row.Table, relay.ErrServerChanged)
	case err != nil:
		return fmt.Errorf("renew the lease of %s: %w", l.row.Table, err)
	case !at.same(l.giver()):
		return fmt.Errorf("renew the lease of %s: %w", l.row.Table, l.changed(at))
	case renewed != len(claim.Lanes):
		return fmt.Errorf("renew the lease of %s: %w", l.row.Table, relay.ErrLeaseLost)
	}
	return nil
}

// Release implements [relay.Leases].
func (l *leases) Release(ctx context.Context, claim relay.Claim) error {
	err := l.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
WITH held AS MATERIALIZED (
    SELECT l.lane FROM outbox.lane l JOIN unnest($3::integer[], $4::bigint[]) c(lane, epoch) ON c.lane = l.lane
    WHERE l.source = $1 AND l.owner = $2 AND l.epoch = c.epoch ORDER BY l.lane FOR UPDATE OF l
)
UPDATE outbox.lane l SET owner = NULL, expires_at = NULL FROM held WHERE l.source = $1 AND l.lane = held.lane`,
			l.row.ID, claim.Owner.ID, claim.Lanes, claim.Epochs)
		return err
	})
	if err != nil {
		return fmt.Errorf("release lanes of %s: %w", l.row.Table, err)
	}
	return nil
}

// Leave implements [relay.Leases].
func (l *leases) Leave(ctx context.Context, claim relay.Claim) error {
	err := l.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
WITH held AS MATERIALIZED (
    SELECT l.lane FROM outbox.lane l JOIN unnest($3::integer[], $4::bigint[]) c(lane, epoch) ON c.lane = l.lane
    WHERE l.source = $1 AND l.owner = $2 AND l.epoch = c.epoch ORDER BY l.lane FOR UPDATE OF l
), freed AS (
    UPDATE outbox.lane l SET owner = NULL, expires_at = NULL FROM held WHERE l.source = $1 AND l.lane = held.lane
)
DELETE FROM outbox.relay WHERE source = $1 AND owner = $2 AND NOT EXISTS (
    SELECT FROM outbox.lane l WHERE l.source = $1 AND l.owner = $2 AND l.lane NOT IN (SELECT lane FROM held))`,
			l.row.ID, claim.Owner.ID, claim.Lanes, claim.Epochs)
		return err
	})
	if err != nil {
		return fmt.Errorf("leave %s: %w", l.row.Table, err)
	}
	return nil
}
