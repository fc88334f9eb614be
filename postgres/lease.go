package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/relay"
)

// leases is the right to publish, kept in outbox.lane and judged by the database's clock alone: hosts disagree about the time.
type leases struct {
	db  runner
	row sourceRow

	mu sync.Mutex
	// given is the server that gave the last claim; another one may not know of it.
	given server
}

// Claim implements [relay.Leases].
func (l *leases) Claim(ctx context.Context, owner relay.Owner, ttl time.Duration) (relay.Claim, error) {
	claim := relay.Claim{Owner: owner}
	var at server
	err := inTx(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if at, err = readServer(ctx, tx); err != nil {
			return err
		}
		if err := register(ctx, tx, l.row.id, owner); err != nil {
			return err
		}
		if err := lockLanes(ctx, tx, l.row); err != nil {
			return err
		}
		if claim.Lanes, claim.Epochs, err = takeLanes(ctx, tx, l.row.id, owner.ID, ttl); err != nil || len(claim.Lanes) > 0 {
			return err
		}
		claim.Owner, claim.Expires, err = readOwner(ctx, tx, l.row.id, owner.ID)
		return err
	})
	if err != nil {
		return relay.Claim{}, fmt.Errorf("claim the lanes of %s: %w", l.row.table, err)
	}
	claim.Held = len(claim.Lanes) > 0
	if claim.Held {
		l.remember(at)
	}
	return claim, nil
}

func (l *leases) remember(s server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.given = s
}

func (l *leases) giver() server {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.given
}

// register shows the relay to operators, working or waiting, and forgets those that were not seen for a day.
func register(ctx context.Context, tx pgx.Tx, source uuid.UUID, owner relay.Owner) error {
	_, err := tx.Exec(ctx, `
INSERT INTO outbox.relay AS r (source, owner, name, version) VALUES ($1, $2, $3, $4)
ON CONFLICT (source, owner) DO UPDATE SET name = excluded.name, version = excluded.version, seen_at = clock_timestamp()`,
		source, owner.ID, storable(owner.Name), storable(owner.Version))
	if err != nil {
		return fmt.Errorf("register the relay: %w", err)
	}
	// SKIP LOCKED: two relays that clean up at once must not wait for each other.
	_, err = tx.Exec(ctx, `
DELETE FROM outbox.relay WHERE source = $1 AND owner IN (
    SELECT owner FROM outbox.relay WHERE source = $1 AND seen_at < clock_timestamp() - interval '24 hours'
    FOR UPDATE SKIP LOCKED)`, source)
	if err != nil {
		return fmt.Errorf("forget old relays: %w", err)
	}
	return nil
}

// lockLanes locks all lanes in their order, which every statement on several lanes keeps to, and checks that all are there and no more:
// a lane that nobody claims is a part of the keys that nobody publishes.
func lockLanes(ctx context.Context, tx pgx.Tx, row sourceRow) error {
	rows, err := tx.Query(ctx, `SELECT lane FROM outbox.lane WHERE source = $1 ORDER BY lane FOR UPDATE`, row.id)
	if err != nil {
		return fmt.Errorf("lock the lanes: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return fmt.Errorf("lock the lanes: %w", err)
	}
	if len(found) == row.lanes && found[len(found)-1] == int32(row.lanes)-1 {
		return nil
	}
	return fmt.Errorf("outbox.lane holds the lanes %v, and outbox.source says 0 to %d: it was changed by hand or restored in part; "+
		"stop all relays of this table, delete the lanes that are too many, and run for those that are missing: outbox migrate up --table %s",
		found, row.lanes-1, row.table)
}

// takeLanes takes the locked lanes, all or none: none when another owner's lease has not expired.
func takeLanes(ctx context.Context, tx pgx.Tx, source, owner uuid.UUID, ttl time.Duration) (lanes []int32, epochs []int64, err error) {
	rows, err := tx.Query(ctx, `
UPDATE outbox.lane SET
    epoch = epoch + CASE WHEN owner = $2 THEN 0 ELSE 1 END,
    owner = $2,
    expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
WHERE source = $1 AND NOT EXISTS (
    SELECT FROM outbox.lane o WHERE o.source = $1 AND o.owner <> $2 AND o.expires_at > clock_timestamp())
RETURNING lane, epoch`, source, owner, ttl.Microseconds())
	if err != nil {
		return nil, nil, fmt.Errorf("take the lanes: %w", err)
	}
	var lane int32
	var epoch int64
	_, err = pgx.ForEachRow(rows, []any{&lane, &epoch}, func() error {
		lanes, epochs = append(lanes, lane), append(epochs, epoch)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("take the lanes: %w", err)
	}
	return lanes, epochs, nil
}

// readOwner names the owner whose lease lasts longest.
func readOwner(ctx context.Context, tx pgx.Tx, source, but uuid.UUID) (relay.Owner, time.Duration, error) {
	var o relay.Owner
	var us int64
	err := tx.QueryRow(ctx, `
SELECT l.owner, coalesce(r.name, ''), coalesce(r.version, ''),
       greatest(0, extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint
FROM outbox.lane l LEFT JOIN outbox.relay r ON r.source = l.source AND r.owner = l.owner
WHERE l.source = $1 AND l.owner <> $2 ORDER BY l.expires_at DESC LIMIT 1`, source, but).Scan(&o.ID, &o.Name, &o.Version, &us)
	if err != nil {
		return relay.Owner{}, 0, fmt.Errorf("read the lanes' owner: %w", err)
	}
	return o, time.Duration(us) * time.Microsecond, nil
}

// renewSQL prolongs the lanes that are still the owner's at the given epochs, locked in lane order as in lockLanes.
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
    UPDATE outbox.relay SET seen_at = clock_timestamp() WHERE source = $1 AND owner = $2
)
SELECT (SELECT count(*) FROM renewed), ` + serverSQL

// Renew implements [relay.Leases].
func (l *leases) Renew(ctx context.Context, claim relay.Claim, ttl time.Duration) error {
	var renewed int
	var at server
	err := l.db.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, renewSQL, l.row.id, claim.Owner.ID, claim.Lanes, claim.Epochs, ttl.Microseconds()).
			Scan(&renewed, &at.started, &at.timeline, &at.recovery)
	})
	switch {
	case isReadOnly(err):
		return fmt.Errorf("renew the lease of %s: the server is read-only now: %w", l.row.table, relay.ErrServerChanged)
	case err != nil:
		return fmt.Errorf("renew the lease of %s: %w", l.row.table, err)
	case !at.same(l.giver()):
		return fmt.Errorf("renew the lease of %s: it was given by another server (%s, now %s): %w",
			l.row.table, l.giver(), at, relay.ErrServerChanged)
	case renewed == 0 || renewed != len(claim.Lanes):
		return fmt.Errorf("renew the lease of %s: %w", l.row.table, relay.ErrLeaseLost)
	}
	return nil
}

// Release implements [relay.Leases].
func (l *leases) Release(ctx context.Context, claim relay.Claim) error {
	err := l.db.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
WITH held AS MATERIALIZED (
    SELECT l.lane FROM outbox.lane l JOIN unnest($3::integer[], $4::bigint[]) c(lane, epoch) ON c.lane = l.lane
    WHERE l.source = $1 AND l.owner = $2 AND l.epoch = c.epoch ORDER BY l.lane FOR UPDATE OF l
), gone AS (
    DELETE FROM outbox.relay WHERE source = $1 AND owner = $2
)
UPDATE outbox.lane l SET owner = NULL, expires_at = NULL FROM held WHERE l.source = $1 AND l.lane = held.lane`,
			l.row.id, claim.Owner.ID, claim.Lanes, claim.Epochs)
		return err
	})
	if err != nil {
		return fmt.Errorf("release the lease of %s: %w", l.row.table, err)
	}
	return nil
}

// holdLane locks the key's lane in a transaction that decides something, and refuses when the claim does not hold it any more.
func holdLane(ctx context.Context, tx pgx.Tx, source uuid.UUID, claim relay.Claim, lane int32) error {
	for i, mine := range claim.Lanes {
		if mine != lane {
			continue
		}
		var one int
		err := tx.QueryRow(ctx, `
SELECT 1 FROM outbox.lane WHERE source = $1 AND lane = $2 AND owner = $3 AND epoch = $4 FOR UPDATE`,
			source, lane, claim.Owner.ID, claim.Epochs[i]).Scan(&one)
		if errors.Is(err, pgx.ErrNoRows) {
			return relay.ErrLeaseLost
		}
		if err != nil {
			return fmt.Errorf("lock lane %d: %w", lane, err)
		}
		return nil
	}
	return relay.ErrLeaseLost
}
