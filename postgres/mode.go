package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// A table is published either by relays that lease lanes or by relays that compete for rows: the first look at no row's lock, so both
// together would publish everything twice. Each side asks for the other, and then writes down that it works, in one transaction that holds the source's
// mode lock: leased relays share it among them, a competing one has it alone. So one of two that come at once sees the other.
//
// The lock is an advisory one: it costs no write, needs no right, and is given back when the transaction ends, whatever becomes of the process.

// modeLock is the key of a source's mode lock: half of its random id, so that it is hardly an advisory lock of anybody else.
func modeLock(source uuid.UUID) int64 { return int64(binary.BigEndian.Uint64(source[:8])) }

// refuseIfCompeting keeps the transaction's relay from leasing lanes while a competing relay is alive. It is called before the transaction
// locks lanes, and holds until the transaction ends.
func refuseIfCompeting(ctx context.Context, tx pgx.Tx, source uuid.UUID) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock_shared($1)`, modeLock(source)); err != nil {
		return fmt.Errorf("take the mode lock: %w", err)
	}
	// A statement of its own: its snapshot is taken when the lock is held.
	var name string
	var us int64
	err := tx.QueryRow(ctx, `
SELECT name, (extract(epoch FROM expires_at - clock_timestamp()) * 1000000)::bigint FROM outbox.relay
WHERE source = $1 AND mode = 'competing' AND expires_at > clock_timestamp() ORDER BY expires_at DESC LIMIT 1`, source).Scan(&name, &us)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for competing relays: %w", err)
	}
	return fmt.Errorf("the competing relay %q works on this table (its registration ends in %s unless it is renewed), and both together would publish "+
		"events twice: stop all relays with --mode competing first", name, seconds(us))
}

// errLeased tells that lanes are leased.
var errLeased = errors.New("lanes are leased")

// refuseIfLeased is errLeased while a lane is leased. Else nobody leases one until the transaction ends.
func refuseIfLeased(ctx context.Context, tx pgx.Tx, source uuid.UUID) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, modeLock(source)); err != nil {
		return fmt.Errorf("take the mode lock: %w", err)
	}
	var leased bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM outbox.lane WHERE source = $1 AND expires_at > clock_timestamp())`, source).Scan(&leased)
	if err != nil {
		return fmt.Errorf("look for leases: %w", err)
	}
	if leased {
		return errLeased
	}
	return nil
}

func seconds(us int64) time.Duration {
	return (time.Duration(us) * time.Microsecond).Round(100 * time.Millisecond)
}

// competitors are the registrations of relays that compete for rows, in outbox.relay, judged by the database's clock alone.
type competitors struct {
	db  pg.Runner
	row pg.Source
}

// endExpiredSQL takes lanes from owners whose leases have run out, so that a renewal that comes late does not find them. It waits for one that is
// under way.
const endExpiredSQL = `
WITH expired AS MATERIALIZED (
    SELECT lane FROM outbox.lane WHERE source = $1 AND owner IS NOT NULL AND expires_at <= clock_timestamp() ORDER BY lane FOR UPDATE
)
UPDATE outbox.lane l SET epoch = epoch + 1, owner = NULL, expires_at = NULL FROM expired WHERE l.source = $1 AND l.lane = expired.lane`

// registerCompetingSQL writes the registration down unless a lane has an owner: then that lease was running a moment ago; or the schema has outgrown this program.
func registerCompetingSQL() string {
	return `
INSERT INTO outbox.relay (source, owner, name, version, mode, expires_at)
SELECT $1, $2, $3, $4, 'competing', clock_timestamp() + $5::bigint * interval '1 microsecond'
WHERE NOT EXISTS (SELECT FROM outbox.lane WHERE source = $1 AND owner IS NOT NULL) AND ` + pg.OutgrownSQL() + ` IS NULL
ON CONFLICT (source, owner) DO UPDATE SET name = excluded.name, version = excluded.version, mode = excluded.mode,
    seen_at = clock_timestamp(), expires_at = excluded.expires_at`
}

// renewCompetingSQL prolongs a registration that has not run out.
const renewCompetingSQL = `
UPDATE outbox.relay SET seen_at = clock_timestamp(), expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
WHERE source = $1 AND owner = $2 AND mode = 'competing' AND expires_at > clock_timestamp()`

// underModeLock runs the statements while it alone holds the mode lock, and returns how many rows the last has changed. It is one round trip and so
// one transaction: a process that freezes in it keeps the lock from nobody.
func (c *competitors) underModeLock(ctx context.Context, statements *pgx.Batch) (changed int64, err error) {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT pg_advisory_xact_lock($1)`, modeLock(c.row.ID))
	batch.QueuedQueries = append(batch.QueuedQueries, statements.QueuedQueries...)
	err = c.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		results := conn.SendBatch(ctx, batch)
		var err error
		for range batch.Len() {
			var tag pgconn.CommandTag
			if tag, err = results.Exec(); err != nil {
				break
			}
			changed = tag.RowsAffected()
		}
		return firstError(err, results.Close())
	})
	return changed, err
}

// Register makes the owner a competing relay for ttl. It refuses while a lane is leased.
func (c *competitors) Register(ctx context.Context, owner relay.Owner, ttl time.Duration) error {
	batch := &pgx.Batch{}
	batch.Queue(endExpiredSQL, c.row.ID)
	batch.Queue(registerCompetingSQL(), c.row.ID, owner.ID, pg.Storable(owner.Name), pg.Storable(owner.Version), ttl.Microseconds())
	n, err := c.underModeLock(ctx, batch)
	if err == nil && n == 0 {
		err = c.unregistered(ctx)
	}
	if err != nil {
		return fmt.Errorf("register as a competing relay of %s: %w", c.row.Table, err)
	}
	return nil
}

// Renew prolongs the registration. It is relay.ErrLeaseLost when that has run out meanwhile, even if nobody has noticed.
func (c *competitors) Renew(ctx context.Context, owner relay.Owner, ttl time.Duration) error {
	batch := &pgx.Batch{}
	batch.Queue(renewCompetingSQL, c.row.ID, owner.ID, ttl.Microseconds())
	n, err := c.underModeLock(ctx, batch)
	if err == nil && n == 0 {
		err = relay.ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("renew the registration at %s: %w", c.row.Table, err)
	}
	return nil
}

// Report writes down for how long Kafka has been silent to the owner; 0 when it answers.
func (c *competitors) Report(ctx context.Context, owner relay.Owner, silent time.Duration) error {
	err := c.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
UPDATE outbox.relay SET seen_at = clock_timestamp(), silent_since = clock_timestamp() - $3::bigint * interval '1 microsecond'
WHERE source = $1 AND owner = $2 AND mode = 'competing'`, c.row.ID, owner.ID, orNull(silent))
		return err
	})
	if err != nil {
		return fmt.Errorf("report to the relays of %s: %w", c.row.Table, err)
	}
	return nil
}

// Withdraw ends the registration. Withdrawing one that is not there does nothing.
func (c *competitors) Withdraw(ctx context.Context, owner relay.Owner) error {
	err := c.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `DELETE FROM outbox.relay WHERE source = $1 AND owner = $2 AND mode = 'competing'`, c.row.ID, owner.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("end the registration at %s: %w", c.row.Table, err)
	}
	return nil
}

// unregistered says why a registration was refused.
func (c *competitors) unregistered(ctx context.Context) error {
	var outgrown *string
	err := c.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT "+pg.OutgrownSQL()).Scan(&outgrown)
	})
	if err != nil {
		return fmt.Errorf("read the version of the schema outbox: %w", err)
	}
	if err := pg.RefuseOutgrown(outgrown); err != nil {
		return err
	}
	return c.leased(ctx)
}

// leased says who leases lanes, as an error.
func (c *competitors) leased(ctx context.Context) error {
	var name string
	var us int64
	err := c.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `
SELECT coalesce(r.name, ''), (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint
FROM outbox.lane l LEFT JOIN outbox.relay r ON r.source = l.source AND r.owner = l.owner
WHERE l.source = $1 AND l.owner IS NOT NULL ORDER BY l.expires_at DESC LIMIT 1`, c.row.ID).Scan(&name, &us)
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read who leases lanes: %w", err)
	}
	return fmt.Errorf("the relay %q leases lanes of this table (for %s unless it renews them), and both together would publish events twice: "+
		"stop all relays with --mode leased first", name, seconds(max(us, 0)))
}
