package postgres

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/relay"
)

func TestOneOfManyClaimersGetsAllLanes(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	const relays = 6
	claims := make([]relay.Claim, relays)
	errs := make([]error, relays)
	var wg sync.WaitGroup
	for i := range relays {
		s := openSource(t, db, Config{})
		wg.Go(func() { claims[i], errs[i] = s.Claim(t.Context(), owner("r"), ttl) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	won := slices.IndexFunc(claims, func(c relay.Claim) bool { return c.Held })
	if won < 0 {
		t.Fatal("nobody holds the lanes")
	}
	winner := claims[won]
	same(t, "the winner's lanes", winner.Lanes, []int32{0, 1, 2, 3, 4, 5, 6, 7})
	same(t, "the winner's epochs", winner.Epochs, []int64{1, 1, 1, 1, 1, 1, 1, 1})
	for i, c := range claims {
		if i == won {
			continue
		}
		if c.Held || c.Lanes != nil || c.Owner != winner.Owner {
			t.Errorf("claim %d = %+v, want that of %+v", i, c, winner.Owner)
		}
		if c.Expires <= 0 || c.Expires > ttl {
			t.Errorf("claim %d: the other lease lasts %s, want something up to %s", i, c.Expires, ttl)
		}
	}
	same(t, "owners in the table", queryOne[int](t, db, `SELECT count(DISTINCT owner) FROM outbox.lane WHERE owner IS NOT NULL`), 1)
}

func TestOneLiveLaneKeepsAllFromAnotherOwner(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	claim(t, a, owner("a"))
	exec(t, db, `UPDATE outbox.lane SET expires_at = clock_timestamp() - interval '1 s' WHERE lane <> 5`)
	c, err := b.Claim(t.Context(), owner("b"), ttl)
	if err != nil || c.Held {
		t.Fatalf("Claim = %+v, %v; want it not held", c, err)
	}
	same(t, "lanes taken by b", queryOne[int](t, db, `SELECT count(DISTINCT owner) FROM outbox.lane`), 1)
}

func TestAnExpiredLeaseIsTakenOverWithHigherEpochs(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	first := claim(t, a, owner("a"))
	expire(t, db)
	second := claim(t, b, owner("b"))
	same(t, "epochs after the takeover", second.Epochs, []int64{2, 2, 2, 2, 2, 2, 2, 2})
	if err := a.Renew(t.Context(), first, ttl); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Renew of the old owner = %v, want ErrLeaseLost", err)
	}
	if err := a.Release(t.Context(), first); err != nil {
		t.Errorf("Release of the old owner = %v, want nothing done", err)
	}
	if err := b.Renew(t.Context(), second, ttl); err != nil {
		t.Errorf("Renew of the new owner = %v", err)
	}
	same(t, "lanes of b", queryOne[int](t, db, `SELECT count(*) FROM outbox.lane WHERE owner = $1`, second.Owner.ID), 8)
}

func TestRenewProlongsByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	o := owner("a")
	c, err := s.Claim(t.Context(), o, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, `UPDATE outbox.relay SET seen_at = '2000-01-01'`)
	if err := s.Renew(t.Context(), c, 3*time.Hour); err != nil {
		t.Fatal(err)
	}
	same(t, "lanes that last three hours", queryOne[int](t, db, `
SELECT count(*) FROM outbox.lane WHERE expires_at BETWEEN clock_timestamp() + interval '2 h 55 min' AND clock_timestamp() + interval '3 h'`), 8)
	same(t, "relays seen now", queryOne[int](t, db, `
SELECT count(*) FROM outbox.relay WHERE owner = $1 AND seen_at > clock_timestamp() - interval '5 min'`, o.ID), 1)
}

func TestRenewOfAnotherEpochIsRefused(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	exec(t, db, `UPDATE outbox.lane SET epoch = epoch + 1 WHERE lane = 3`)
	before := queryOne[time.Time](t, db, `SELECT max(expires_at) FROM outbox.lane`)
	if err := s.Renew(t.Context(), c, 2*ttl); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Renew = %v, want ErrLeaseLost", err)
	}
	same(t, "the longest lease after a refused renewal", queryOne[time.Time](t, db, `SELECT max(expires_at) FROM outbox.lane`), before)
}

func TestRenewAtAnotherServerIsRefused(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	l := s.open.Load().leases
	given := l.giver()
	for _, other := range []server{
		{started: given.started.Add(-time.Second), timeline: given.timeline},
		{started: given.started, timeline: given.timeline + 1},
	} {
		l.remember(other)
		if err := s.Renew(t.Context(), c, ttl); !errors.Is(err, relay.ErrServerChanged) {
			t.Errorf("Renew of a lease given by the server %s = %v, want ErrServerChanged", other, err)
		}
	}
	l.remember(given)
	if err := s.Renew(t.Context(), c, ttl); err != nil {
		t.Errorf("Renew at the same server = %v", err)
	}
}

func TestAReleasedLeaseIsFreeAtOnce(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	first := claim(t, a, owner("a"))
	if err := a.Release(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	same(t, "epochs after a release", claim(t, b, owner("b")).Epochs, []int64{2, 2, 2, 2, 2, 2, 2, 2})
	if err := a.Renew(t.Context(), first, ttl); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Renew after Release = %v, want ErrLeaseLost", err)
	}
}

func TestClaimingAgainKeepsTheEpochs(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	o := owner("a")
	first := claim(t, s, o)
	same(t, "the second claim", claim(t, s, o), first)
	expire(t, db)
	same(t, "the claim after expiry", claim(t, s, o), first)
}

func TestClaimRefusesLanesThatAreMissingOrTooMany(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"one missing":  `DELETE FROM outbox.lane WHERE lane = 7`,
		"all missing":  `DELETE FROM outbox.lane`,
		"gap":          `UPDATE outbox.lane SET lane = 100 WHERE lane = 3`,
		"one too many": `INSERT INTO outbox.lane (source, lane) SELECT id, 8 FROM outbox.source`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			s := openSource(t, db, Config{})
			exec(t, db, damage)
			_, err := s.Claim(t.Context(), owner("a"), ttl)
			wantText(t, err, "0 to 7", "outbox migrate up --table public.outbox_event")
			same(t, "lanes taken", queryOne[int](t, db, `SELECT count(*) FROM outbox.lane WHERE owner IS NOT NULL`), 0)
		})
	}
}

func TestClaimShowsTheRelayAndForgetsOldOnes(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	claim(t, a, relay.Owner{ID: uuid.New(), Name: "host-a\x00\xff", Version: "1.2.3"})
	waiting := owner("host-b")
	old := uuid.New()
	exec(t, db, `INSERT INTO outbox.relay (source, owner, name, version, seen_at)
SELECT id, $1, 'old', '1', clock_timestamp() - interval '25 h' FROM outbox.source`, old)
	if _, err := b.Claim(t.Context(), waiting, ttl); err != nil {
		t.Fatal(err)
	}
	same(t, "registered relays", queryOne[[]string](t, db, `SELECT array(SELECT name || ' ' || version FROM outbox.relay ORDER BY name)`),
		[]string{"host-a\uFFFD 1.2.3", "host-b test"})
}
