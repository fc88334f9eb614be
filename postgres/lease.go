package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// leases is the right to publish, kept in outbox.lane and judged by the database's clock alone: hosts disagree about the time.
//
// Order of locks: the mode lock, outbox.source, the relay's own row, lanes in ascending order. Lanes of others are taken last and never waited for, so no two
// of these statements wait for each other.
type leases struct {
	db  pg.Runner
	row pg.Source

	mu sync.Mutex
	// given is the server that gave the lanes; another one may not know of it.
	given server
}

// leased is a lane that an owner has, with its epoch.
type leased struct {
	lane  int32
	epoch int64
	// abandoned tells that the owner before has not given it back.
	abandoned bool
}

// Claim implements [relay.Leases].
func (l *leases) Claim(ctx context.Context, owner relay.Owner, ttl time.Duration, held relay.Claim) (relay.Claim, error) {
	var lanes []leased
	var at server
	err := pg.InTx(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
		if err := refuseIfCompeting(ctx, tx, l.row.ID); err != nil {
			return err
		}
		var err error
		if at, err = holdLayout(ctx, tx, l.row); err != nil {
			return err
		}
		if len(held.Lanes) > 0 && !at.same(l.giver()) {
			return l.changed(at)
		}
		if err := register(ctx, tx, l.row.ID, owner, ttl); err != nil {
			return err
		}
		lanes, err = l.share(ctx, tx, owner.ID, ttl, held)
		return err
	})
	switch {
	case pg.IsReadOnly(err) && len(held.Lanes) > 0:
		return relay.Claim{}, fmt.Errorf("claim lanes of %s: the server is read-only now: %w", l.row.Table, relay.ErrServerChanged)
	case pg.IsReadOnly(err):
		return relay.Claim{}, fmt.Errorf("claim lanes of %s: %w", l.row.Table, errReadOnly)
	case err != nil:
		return relay.Claim{}, fmt.Errorf("claim lanes of %s: %w", l.row.Table, err)
	}
	if len(held.Lanes) == 0 {
		l.remember(at)
	}
	return claimOf(owner, lanes), nil
}

// claimOf sorts the lanes.
func claimOf(owner relay.Owner, lanes []leased) relay.Claim {
	slices.SortFunc(lanes, func(a, b leased) int { return cmp.Compare(a.lane, b.lane) })
	c := relay.Claim{Owner: owner}
	for _, l := range lanes {
		c.Lanes, c.Epochs = append(c.Lanes, l.lane), append(c.Epochs, l.epoch)
		if l.abandoned {
			c.Abandoned = append(c.Abandoned, l.lane)
		}
	}
	return c
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

func (l *leases) changed(now server) error {
	return fmt.Errorf("the lanes were given by another server (%s, now %s): %w", l.giver(), now, relay.ErrServerChanged)
}

// holdLayout locks the source's row against a change of the number of lanes, and checks that all lanes are there and no more: a lane that nobody
// claims is a part of the keys that nobody publishes. The lock disturbs no other claim, and no settle. A relay whose program the schema has outgrown since it was
// opened gets no further.
func holdLayout(ctx context.Context, tx pgx.Tx, row pg.Source) (server, error) {
	var at server
	var lanes int
	var found []int32
	var outgrown *string
	err := tx.QueryRow(ctx, `
SELECT s.lanes, array(SELECT l.lane FROM outbox.lane l WHERE l.source = s.id ORDER BY l.lane), `+serverSQL+`, `+pg.OutgrownSQL()+`
FROM outbox.source s WHERE s.id = $1 FOR KEY SHARE OF s`, row.ID).Scan(&lanes, &found, &at.started, &at.timeline, &at.recovery, &outgrown)
	switch {
	case err != nil:
		return server{}, fmt.Errorf("read the number of lanes: %w", err)
	case outgrown != nil:
		return server{}, pg.RefuseOutgrown(outgrown)
	case lanes != row.Lanes:
		return server{}, fmt.Errorf("the source has %d lanes now, and had %d when this relay opened it: the number was changed while no relay was alive; "+
			"the relay has to open it again", lanes, row.Lanes)
	case len(found) == lanes && found[0] == 0 && found[lanes-1] == int32(lanes)-1:
		return at, nil
	}
	return server{}, pg.Misconfigured(fmt.Errorf("outbox.lane holds the lanes %v, and outbox.source says 0 to %d: it was changed by hand or restored in part; "+
		"stop all relays of this table, delete the lanes that are too many, and run for those that are missing: outbox migrate up --table %s",
		found, lanes-1, advice.Word(row.Table.String())))
}

// register shows the relay to the others and to operators, working or waiting, and forgets those that have been dead for a day.
func register(ctx context.Context, tx pgx.Tx, source uuid.UUID, owner relay.Owner, ttl time.Duration) error {
	_, err := tx.Exec(ctx, `
INSERT INTO outbox.relay AS r (source, owner, name, version, standing, expires_at)
VALUES ($1, $2, $3, $4, 0, clock_timestamp() + $5::bigint * interval '1 microsecond')
ON CONFLICT (source, owner) DO UPDATE SET
    name = excluded.name, version = excluded.version, seen_at = clock_timestamp(),
    expires_at = clock_timestamp() + $5::bigint * interval '1 microsecond'`,
		source, owner.ID, pg.Storable(owner.Name), pg.Storable(owner.Version), ttl.Microseconds())
	if err != nil {
		return fmt.Errorf("register the relay: %w", err)
	}
	// SKIP LOCKED: two relays that clean up at once must not wait for each other.
	_, err = tx.Exec(ctx, `
DELETE FROM outbox.relay WHERE source = $1 AND owner IN (
    SELECT owner FROM outbox.relay WHERE source = $1 AND expires_at < clock_timestamp() - interval '24 hours'
    FOR UPDATE SKIP LOCKED)`, source)
	if err != nil {
		return fmt.Errorf("forget old relays: %w", err)
	}
	return nil
}

// share prolongs what the owner has and takes free lanes up to its share.
func (l *leases) share(ctx context.Context, tx pgx.Tx, owner uuid.UUID, ttl time.Duration, held relay.Claim) ([]leased, error) {
	mine, err := prolong(ctx, tx, l.row.ID, owner, ttl, len(held.Lanes) == 0)
	if err != nil {
		return nil, err
	}
	for i, lane := range held.Lanes {
		if !slices.Contains(mine, leased{lane: lane, epoch: held.Epochs[i]}) {
			return nil, fmt.Errorf("lane %d: %w", lane, relay.ErrLeaseLost)
		}
	}
	var others int
	var standing relay.Standing
	err = tx.QueryRow(ctx, `
SELECT count(*) FILTER (WHERE owner <> $2 AND standing = 2), coalesce(max(standing) FILTER (WHERE owner = $2), 0)
FROM outbox.relay WHERE source = $1 AND mode = 'leased' AND expires_at > clock_timestamp()`, l.row.ID, owner).Scan(&others, &standing)
	if err != nil {
		return nil, fmt.Errorf("count the relays: %w", err)
	}
	most := relay.Share(l.row.Lanes, others+1)
	if others > 0 && standing < relay.StandingTried {
		most = min(most, 1) // it may die of what it takes, and another relay is there
	}
	room := most - len(mine)
	if room <= 0 {
		return mine, nil
	}
	more, err := takeFree(ctx, tx, l.row.ID, owner, ttl, room)
	return append(mine, more...), err
}

// prolong gives the owner's lanes another ttl, expired ones too: nobody has taken them. An owner that begins anew gets them with a higher epoch: a release of
// before that was cut off in the network, and arrives now, must not free them.
func prolong(ctx context.Context, tx pgx.Tx, source, owner uuid.UUID, ttl time.Duration, anew bool) ([]leased, error) {
	rows, err := tx.Query(ctx, `
WITH mine AS MATERIALIZED (
    SELECT lane FROM outbox.lane WHERE source = $1 AND owner = $2 ORDER BY lane FOR UPDATE
)
UPDATE outbox.lane l SET expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond', epoch = epoch + $4::boolean::integer
FROM mine WHERE l.source = $1 AND l.lane = mine.lane
RETURNING l.lane, l.epoch, false`, source, owner, ttl.Microseconds(), anew)
	if err != nil {
		return nil, fmt.Errorf("prolong the lanes: %w", err)
	}
	lanes, err := pgx.CollectRows(rows, scanLeased)
	if err != nil {
		return nil, fmt.Errorf("prolong the lanes: %w", err)
	}
	return lanes, nil
}

// takeFree takes at most limit of the lanes that nobody has. Whoever has one locked is about to take it, keep it or give it back: that
// one is left for the next time. What has expired is judged once more when the lock is had, on the newest row.
func takeFree(ctx context.Context, tx pgx.Tx, source, owner uuid.UUID, ttl time.Duration, limit int) ([]leased, error) {
	rows, err := tx.Query(ctx, `
WITH free AS MATERIALIZED (
    SELECT lane, owner IS NOT NULL AS abandoned FROM outbox.lane WHERE source = $1 AND (owner IS NULL OR expires_at <= clock_timestamp())
    ORDER BY lane LIMIT $4 FOR UPDATE SKIP LOCKED
)
UPDATE outbox.lane l SET epoch = l.epoch + 1, owner = $2, expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
FROM free WHERE l.source = $1 AND l.lane = free.lane
RETURNING l.lane, l.epoch, free.abandoned`, source, owner, ttl.Microseconds(), limit)
	if err != nil {
		return nil, fmt.Errorf("take lanes: %w", err)
	}
	lanes, err := pgx.CollectRows(rows, scanLeased)
	if err != nil {
		return nil, fmt.Errorf("take lanes: %w", err)
	}
	return lanes, nil
}

func scanLeased(row pgx.CollectableRow) (l leased, err error) {
	err = row.Scan(&l.lane, &l.epoch, &l.abandoned)
	return l, err
}
