package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/relay"
)

// openCompeting returns an open source of the database's table public.outbox_event.
func openCompeting(t *testing.T, db *pgxpool.Pool) *Competing {
	t.Helper()
	c, err := NewCompeting(db, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// leaser does what a claim of lanes does.
type leaser struct {
	db     *pgxpool.Pool
	source uuid.UUID
}

func newLeaser(t *testing.T, db *pgxpool.Pool) leaser {
	return leaser{db, queryOne[uuid.UUID](t, db, `SELECT id FROM outbox.source`)}
}

func (l leaser) lease(ctx context.Context, owner uuid.UUID, between func()) error {
	return pgx.BeginFunc(ctx, l.db, func(tx pgx.Tx) error {
		if err := refuseIfCompeting(ctx, tx, l.source); err != nil {
			return err
		}
		between()
		_, err := tx.Exec(ctx, `UPDATE outbox.lane SET owner = $1, epoch = epoch + 1, expires_at = clock_timestamp() + interval '1 h' WHERE source = $2`, owner, l.source)
		return err
	})
}

func nothing() {}

func TestACompetingRelayIsRefusedWhileLanesAreLeased(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c := openCompeting(t, db)
	leased := owner("leased:1")
	exec(t, db, `INSERT INTO outbox.relay (source, owner, name, version, expires_at) SELECT id, $1, 'leased:1', 'test', clock_timestamp() + interval '1 h' FROM outbox.source`, leased.ID)
	exec(t, db, `UPDATE outbox.lane SET owner = $1, epoch = 1, expires_at = clock_timestamp() + interval '1 h' WHERE lane = 5`, leased.ID)
	wantText(t, c.Register(t.Context(), owner("competing:2"), ttl), "leased:1", "1h0m0s", "--mode leased", "public.outbox_event")
	same(t, "competing relays", queryOne[int](t, db, `SELECT count(*) FROM outbox.relay WHERE mode = 'competing'`), 0)

	exec(t, db, `UPDATE outbox.lane SET expires_at = clock_timestamp() - interval '1 ms' WHERE lane = 5`)
	if err := c.Register(t.Context(), owner("competing:2"), ttl); err != nil {
		t.Errorf("Register after the lease has run out = %v", err)
	}
}

// A relay that was frozen beyond its lease must not get the lanes back by a renewal that comes late.
func TestRegisteringEndsLeasesThatHaveRunOut(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c := openCompeting(t, db)
	exec(t, db, `UPDATE outbox.lane SET owner = gen_random_uuid(), epoch = 7, expires_at = clock_timestamp() - interval '1 ms'`)
	if err := c.Register(t.Context(), owner("competing:1"), ttl); err != nil {
		t.Fatal(err)
	}
	same(t, "lanes without an owner in the next epoch", queryOne[int](t, db, `SELECT count(*) FROM outbox.lane WHERE owner IS NULL AND epoch = 8`), 8)
}

func TestNobodyLeasesLanesWhileACompetingRelayIsRegistered(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c, l := openCompeting(t, db), newLeaser(t, db)
	one, two := owner("competing:1"), owner("competing:2")
	for _, o := range []relay.Owner{one, two} {
		if err := c.Register(t.Context(), o, ttl); err != nil {
			t.Fatal(err)
		}
	}
	wantText(t, l.lease(t.Context(), uuid.New(), nothing), "competing:2", "--mode competing")
	if err := c.Withdraw(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	wantText(t, l.lease(t.Context(), uuid.New(), nothing), "competing:1")
	exec(t, db, `UPDATE outbox.relay SET expires_at = clock_timestamp() - interval '1 ms'`)
	if err := l.lease(t.Context(), uuid.New(), nothing); err != nil {
		t.Errorf("lease after the registration has run out: %v", err)
	}
}

func TestARegistrationOfAnotherSourceIsNoneOfOurs(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	l := newLeaser(t, db)
	exec(t, db, `WITH s AS (INSERT INTO outbox.source (table_schema, table_name) VALUES ('other', 'outbox_event') RETURNING id)
INSERT INTO outbox.relay (source, owner, name, version, mode, expires_at) SELECT id, gen_random_uuid(), 'x', '1', 'competing', clock_timestamp() + interval '1 h' FROM s`)
	if err := l.lease(t.Context(), uuid.New(), nothing); err != nil {
		t.Error(err)
	}
}

func TestARegistrationThatHasRunOutIsNotRenewed(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c := openCompeting(t, db)
	o := owner("competing:1")
	if err := c.Register(t.Context(), o, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := c.Renew(t.Context(), o, 3*time.Hour); err != nil {
		t.Fatal(err)
	}
	same(t, "registrations that last three hours", queryOne[int](t, db, `
SELECT count(*) FROM outbox.relay WHERE expires_at BETWEEN clock_timestamp() + interval '2 h 55 min' AND clock_timestamp() + interval '3 h'`), 1)
	exec(t, db, `UPDATE outbox.relay SET expires_at = clock_timestamp() - interval '1 ms'`)
	if err := c.Renew(t.Context(), o, ttl); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Renew = %v, want ErrLeaseLost", err)
	}
	if err := c.Register(t.Context(), o, ttl); err != nil {
		t.Errorf("Register again = %v", err)
	}
	if err := c.Renew(t.Context(), o, ttl); err != nil {
		t.Errorf("Renew after that = %v", err)
	}
}

// Whoever of the two comes second, while the first has decided and not committed, waits and then sees the first.
func TestOfTwoModesAtOnceOneSeesTheOther(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c, l := openCompeting(t, db), newLeaser(t, db)
	registered := make(chan error, 1)
	err := l.lease(t.Context(), uuid.New(), func() {
		go func() { registered <- c.Register(context.WithoutCancel(t.Context()), owner("competing:1"), ttl) }()
		eventually(t, "the registration to wait for the mode lock", func() bool {
			return queryOne[int](t, db, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 1
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, <-registered, "leases lanes")
}

func TestModesThatRaceNeverBothWin(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c, l := openCompeting(t, db), newLeaser(t, db)
	for range 30 {
		o := owner("competing:1")
		var leased, registered error
		var wg sync.WaitGroup
		wg.Go(func() { leased = l.lease(t.Context(), uuid.New(), nothing) })
		wg.Go(func() { registered = c.Register(t.Context(), o, ttl) })
		wg.Wait()
		if (leased == nil) == (registered == nil) {
			t.Fatalf("lease = %v, Register = %v: want one of them refused", leased, registered)
		}
		exec(t, db, `UPDATE outbox.lane SET owner = NULL, expires_at = NULL`)
		if err := c.Withdraw(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAClaimIsRefusedWhileACompetingRelayIsAlive(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c, s := openCompeting(t, db), openSource(t, db, Config{})
	first, o := owner("competing:1"), owner("leased:2")
	if err := c.Register(t.Context(), first, ttl); err != nil {
		t.Fatal(err)
	}
	_, err := s.Claim(t.Context(), o, ttl, relay.Claim{})
	wantText(t, err, "public.outbox_event", "competing:1", "--mode competing")
	same(t, "what the refused relay left", queryOne[[]int64](t, db, `
SELECT ARRAY[(SELECT count(owner) FROM outbox.lane), (SELECT count(*) FROM outbox.relay WHERE mode = 'leased')]`), []int64{0, 0})
	same(t, "the view", look(t, s, o), relay.View{Relays: 1, Free: 8})
	wantText(t, newOperator(t, db).SetLanes(t.Context(), 4), "competing:1")
	if err := c.Withdraw(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	same(t, "lanes taken when it has gone", claim(t, s, o).Lanes, allLanes)
	wantText(t, c.Register(t.Context(), first, ttl), "leased:2")
}

// A dead competing relay has no share of the lanes, and neither has a living one that could not register: only leased relays share them.
func TestACompetingRelayHasNoShare(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	exec(t, db, `INSERT INTO outbox.relay (source, owner, name, version, mode, expires_at) SELECT id, gen_random_uuid(), 'x', '1', 'competing', clock_timestamp() FROM outbox.source`)
	same(t, "lanes", claim(t, s, owner("a")).Lanes, allLanes)
}
