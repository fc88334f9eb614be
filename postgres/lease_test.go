package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/relay"
)

func TestTheOnlyRelayGetsAllLanes(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	o := owner("a")
	same(t, "the claim", claim(t, s, o), relay.Claim{Owner: o, Lanes: allLanes, Epochs: []int64{1, 1, 1, 1, 1, 1, 1, 1}})
}

func TestManyThatClaimAtOnceGetNoLaneTwice(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	const relays = 6
	claims := make([]relay.Claim, relays)
	errs := make([]error, relays)
	var wg sync.WaitGroup
	for i := range relays {
		s := openSource(t, db, Config{})
		wg.Go(func() { claims[i], errs[i] = s.Claim(t.Context(), owner("r"), ttl, relay.Claim{}) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	var taken []int32
	for _, c := range claims {
		taken = append(taken, c.Lanes...)
		for i, lane := range c.Lanes {
			same(t, fmt.Sprintf("owner of lane %d", lane), queryOne[uuid.UUID](t, db, `SELECT owner FROM outbox.lane WHERE lane = $1`, lane), c.Owner.ID)
			same(t, fmt.Sprintf("epoch of lane %d", lane), c.Epochs[i], 1)
		}
	}
	slices.Sort(taken)
	same(t, "lanes taken, by whomever", len(slices.Compact(slices.Clone(taken))), len(taken))
}

func TestLanesAreSharedOutFairly(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b, c := openSource(t, db, Config{}), openSource(t, db, Config{}), openSource(t, db, Config{})
	first := claim(t, a, owner("a"))
	ob, oc := owner("b"), owner("c")
	same(t, "lanes of b while a has all", reclaim(t, b, relay.Claim{Owner: ob}).Lanes, nil)
	for s, o := range map[*Source]relay.Owner{a: first.Owner, b: ob} {
		report(t, s, o, relay.StandingTried, 0)
	}
	back := relay.Claim{Owner: first.Owner, Lanes: first.Lanes[4:], Epochs: first.Epochs[4:]}
	if err := a.Release(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	second := reclaim(t, b, relay.Claim{Owner: ob})
	same(t, "what b got", second, relay.Claim{Owner: ob, Lanes: []int32{4, 5, 6, 7}, Epochs: []int64{2, 2, 2, 2}})
	first.Lanes, first.Epochs = first.Lanes[:4], first.Epochs[:4]
	same(t, "what a keeps", reclaim(t, a, first), first)
	same(t, "lanes of c", reclaim(t, c, relay.Claim{Owner: oc}).Lanes, nil)
	report(t, c, oc, relay.StandingTried, 0)
	if err := b.Release(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	same(t, "lanes of c, a third of 8", reclaim(t, c, relay.Claim{Owner: oc}).Lanes, []int32{4, 5, 6})
	same(t, "lanes of b, the rest", reclaim(t, b, relay.Claim{Owner: ob}).Lanes, []int32{7})
	if err := a.Leave(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	same(t, "lanes of c when a has left", reclaim(t, c, relay.Claim{Owner: oc}).Lanes, []int32{0, 4, 5, 6})
	same(t, "lanes of b when a has left", reclaim(t, b, relay.Claim{Owner: ob}).Lanes, []int32{1, 2, 3, 7})
}

// reclaim claims for an owner who works with lanes already, or with none.
func reclaim(t *testing.T, s *Source, held relay.Claim) relay.Claim {
	t.Helper()
	o := held.Owner
	c, err := s.Claim(t.Context(), o, ttl, held)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestARelayThatDiedHasNoShare(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	report(t, a, claim(t, a, owner("a")).Owner, relay.StandingTried, 0)
	o := owner("b")
	same(t, "lanes of b", reclaim(t, b, relay.Claim{Owner: o}).Lanes, nil)
	report(t, b, o, relay.StandingTried, 0)
	exec(t, db, `UPDATE outbox.lane SET expires_at = clock_timestamp() - interval '1 ms' WHERE lane <> 5`)
	same(t, "lanes of b while a is alive", reclaim(t, b, relay.Claim{Owner: o}).Lanes, []int32{0, 1, 2, 3})
	exec(t, db, `UPDATE outbox.relay SET expires_at = clock_timestamp() - interval '1 ms' WHERE owner <> $1`, o.ID)
	same(t, "lanes of b when a is dead", reclaim(t, b, relay.Claim{Owner: o}).Lanes, []int32{0, 1, 2, 3, 4, 6, 7})
	same(t, "the lane that has not run out", queryOne[string](t, db, `
SELECT r.name FROM outbox.lane l JOIN outbox.relay r USING (source, owner) WHERE l.lane = 5`), "a")
}

// The time is the database's: nothing that a host believes of it is ever compared (BL-089).
func TestEachRelaysLeaseLastsAsItSays(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{Settle: Delete})
	long, short := owner("long"), owner("short")
	if _, err := b.Claim(t.Context(), short, time.Minute, relay.Claim{}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `UPDATE outbox.lane SET owner = NULL, expires_at = NULL WHERE lane < 4`)
	if _, err := a.Claim(t.Context(), long, 10*time.Hour, relay.Claim{}); err != nil {
		t.Fatal(err)
	}
	same(t, "lanes and who has them for how long", queryOne[[]string](t, db, `
SELECT array(SELECT lane || ' ' || name || ' ' || round(extract(epoch FROM l.expires_at - clock_timestamp()) / 60) FROM outbox.lane l JOIN outbox.relay USING (source, owner) ORDER BY lane)`),
		[]string{"0 long 600", "1 long 600", "2 long 600", "3 long 600", "4 short 1", "5 short 1", "6 short 1", "7 short 1"})
}

func TestClaimSaysThatAHeldLaneIsLost(t *testing.T) {
	t.Parallel()
	for name, loss := range map[string]string{
		"given to another owner": `UPDATE outbox.lane SET owner = gen_random_uuid() WHERE lane = 3`,
		"given back":             `UPDATE outbox.lane SET owner = NULL, expires_at = NULL WHERE lane = 3`,
		"of a later epoch":       `UPDATE outbox.lane SET epoch = epoch + 1 WHERE lane = 3`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			s := openSource(t, db, Config{})
			c := claim(t, s, owner("a"))
			exec(t, db, loss)
			before := queryOne[string](t, db, `SELECT string_agg(l::text, ' ' ORDER BY lane) FROM outbox.lane l`)
			if _, err := s.Claim(t.Context(), c.Owner, ttl, c); !errors.Is(err, relay.ErrLeaseLost) {
				t.Errorf("Claim = %v, want ErrLeaseLost", err)
			}
			same(t, "the lanes after a refused claim", queryOne[string](t, db, `SELECT string_agg(l::text, ' ' ORDER BY lane) FROM outbox.lane l`), before)
		})
	}
}

func TestLookTellsHowTheLanesAreShared(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	oa, ob := owner("a"), owner("b")
	same(t, "the view of a relay that is not registered", look(t, b, ob), relay.View{Relays: 1, Free: 8})
	c := claim(t, a, oa)
	same(t, "the view of the only relay", look(t, a, oa), relay.View{Relays: 1})
	v := look(t, b, ob)
	if v.Expires <= ttl/2 || v.Expires > ttl {
		t.Errorf("the last lease ends in %s, want up to %s", v.Expires, ttl)
	}
	v.Expires = 0
	same(t, "the view of a second one while the first has shown nothing", v, relay.View{Relays: 1, Holder: oa})
	reclaim(t, b, relay.Claim{Owner: ob})
	report(t, a, oa, relay.StandingTried, 0)
	report(t, b, ob, relay.StandingTried, 0)
	same(t, "the view of the first when there are two", look(t, a, oa), relay.View{Relays: 2})
	if err := a.Release(t.Context(), relay.Claim{Owner: oa, Lanes: c.Lanes[2:], Epochs: c.Epochs[2:]}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `UPDATE outbox.lane SET expires_at = clock_timestamp() - interval '1 ms' WHERE lane = 0`)
	requested(t, db, VerbSkip, orders)
	v = look(t, b, ob)
	v.Expires = 0
	same(t, "the view when lanes are free, one by expiry", v, relay.View{Relays: 2, Free: 7, Holder: oa, Requests: true})
	expire(t, db)
	same(t, "the view when all are dead", look(t, b, ob), relay.View{Relays: 1, Free: 8, Requests: true})
	exec(t, db, `UPDATE outbox.request SET done_at = now()`)
	same(t, "the view when the request is done", look(t, b, ob), relay.View{Relays: 1, Free: 8})
}

func look(t *testing.T, s *Source, o relay.Owner) relay.View {
	t.Helper()
	v, err := s.Look(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A relay may look while it can write nothing: on a server that has become a standby.
func TestLookWritesNothing(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, readOnly(t, db), Config{})
	same(t, "the view", look(t, s, owner("a")), relay.View{Relays: 1, Free: 8})
}

// readOnly returns a pool of sessions that the server lets write nothing.
func readOnly(t *testing.T, db *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	return reconfigured(t, db, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
}

func TestAReadOnlyServerIsSaid(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, readOnly(t, db), Config{})
	_, err := s.Claim(t.Context(), owner("a"), ttl, relay.Claim{})
	wantText(t, err, "public.outbox_event", "read-only", "connect to the primary")
	c := relay.Claim{Owner: owner("a"), Lanes: []int32{0}, Epochs: []int64{1}}
	if _, err := s.Claim(t.Context(), c.Owner, ttl, c); !errors.Is(err, relay.ErrServerChanged) {
		t.Errorf("Claim with a lane in hand = %v, want ErrServerChanged", err)
	}
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

// The zombie's lanes are another's, its process is still registered by nobody: leaving touches nothing of the other.
func TestAZombieThatLeavesTakesNothingWithIt(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	old := claim(t, a, owner("a"))
	expire(t, db)
	current := claim(t, b, owner("b"))
	if err := a.Leave(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := b.Renew(t.Context(), current, ttl); err != nil {
		t.Errorf("Renew of the new owner = %v", err)
	}
	same(t, "relays", queryOne[[]string](t, db, `SELECT array(SELECT name FROM outbox.relay)`), []string{"b"})
}

func TestLeavingFreesAllAndEndsTheRegistration(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	if err := s.HoldTopics(t.Context(), c.Owner, relay.HeldChange{Held: []relay.HeldTopic{{Topic: "orders"}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	same(t, "what is left", queryOne[[]int64](t, db, `
SELECT ARRAY[(SELECT count(*) FROM outbox.relay), (SELECT count(*) FROM outbox.held_topic), (SELECT count(owner) FROM outbox.lane)]`), []int64{0, 0, 0})
	if err := s.Renew(t.Context(), c, ttl); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Renew after Leave = %v, want ErrLeaseLost", err)
	}
}

func TestRenewProlongsByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	o := owner("a")
	c := claim(t, s, o)
	exec(t, db, `UPDATE outbox.relay SET seen_at = '2000-01-01', expires_at = '2000-01-01'`)
	if err := s.Renew(t.Context(), c, 3*time.Hour); err != nil {
		t.Fatal(err)
	}
	same(t, "lanes that last three hours", queryOne[int](t, db, `
SELECT count(*) FROM outbox.lane WHERE expires_at BETWEEN clock_timestamp() + interval '2 h 55 min' AND clock_timestamp() + interval '3 h'`), 8)
	same(t, "relays seen now", queryOne[int](t, db, `
SELECT count(*) FROM outbox.relay WHERE owner = $1 AND seen_at > clock_timestamp() - interval '5 min'
  AND expires_at BETWEEN clock_timestamp() + interval '2 h 55 min' AND clock_timestamp() + interval '3 h'`, o.ID), 1)
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

func TestClaimAtAnotherServerIsRefusedOnlyWithLanesInHand(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	l := s.open.Load().leases
	l.remember(server{started: l.giver().started.Add(-time.Second), timeline: l.giver().timeline})
	if _, err := s.Claim(t.Context(), c.Owner, ttl, c); !errors.Is(err, relay.ErrServerChanged) {
		t.Errorf("Claim with lanes that another server gave = %v, want ErrServerChanged", err)
	}
	now := reclaim(t, s, relay.Claim{Owner: c.Owner})
	same(t, "the lanes of the claim with nothing in hand", now.Lanes, c.Lanes)
	if err := s.Renew(t.Context(), now, ttl); err != nil {
		t.Errorf("Renew at the server of the last claim = %v", err)
	}
}

func TestAReleasedLeaseIsFreeAtOnce(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	first := claim(t, a, owner("a"))
	report(t, a, first.Owner, relay.StandingTried, 0)
	if err := a.Release(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	same(t, "epochs after a release, of the one lane that a newcomer takes", claim(t, b, owner("b")).Epochs, []int64{2})
	same(t, "epochs when the same owner takes the others again", claim(t, a, first.Owner).Epochs, []int64{2, 2, 2, 2, 2, 2, 2})
	if err := a.Renew(t.Context(), first, ttl); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Renew after Release = %v, want ErrLeaseLost", err)
	}
}

// What an owner sent before it began anew, and which arrives late, must have no effect.
func TestClaimingAgainWithNothingInHandRaisesTheEpochs(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	o := owner("a")
	first := claim(t, s, o)
	second := claim(t, s, o)
	for i, epoch := range second.Epochs {
		if epoch <= first.Epochs[i] {
			t.Errorf("the second claim's epochs = %v, the first one's %v", second.Epochs, first.Epochs)
		}
	}
	for name, late := range map[string]func(context.Context, relay.Claim) error{"release": s.Release, "leave": s.Leave} {
		if err := late(t.Context(), first); err != nil {
			t.Errorf("late %s = %v", name, err)
		}
		if err := s.Renew(t.Context(), second, ttl); err != nil {
			t.Errorf("Renew after a late %s = %v", name, err)
		}
	}
	same(t, "registrations after a late leave", queryOne[int](t, db, "SELECT count(*) FROM outbox.relay"), 1)
	expire(t, db)
	same(t, "the lanes of the claim after expiry", claim(t, s, o).Lanes, second.Lanes)
}

func TestClaimingAgainInTheSameTermKeepsTheEpochs(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	first := claim(t, s, owner("a"))
	same(t, "the second claim", reclaim(t, s, first), first)
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
			_, err := s.Claim(t.Context(), owner("a"), ttl, relay.Claim{})
			wantText(t, err, "0 to 7", "outbox migrate up --table public.outbox_event")
			if !errors.Is(err, relay.ErrConfiguration) {
				t.Error("waiting is said to mend it")
			}
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
	exec(t, db, `INSERT INTO outbox.relay (source, owner, name, version, expires_at)
SELECT id, $1, 'old', '1', clock_timestamp() - interval '25 h' FROM outbox.source`, old)
	reclaim(t, b, relay.Claim{Owner: waiting})
	same(t, "registered relays", queryOne[[]string](t, db, `SELECT array(SELECT name || ' ' || version FROM outbox.relay ORDER BY name)`),
		[]string{"host-a\uFFFD 1.2.3", "host-b test"})
}
