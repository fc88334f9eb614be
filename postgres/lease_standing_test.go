package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/relay"
)

func report(t *testing.T, s *Source, o relay.Owner, standing relay.Standing, proved time.Duration) {
	t.Helper()
	if err := s.Report(t.Context(), o, relay.Report{Standing: standing, Proved: proved}); err != nil {
		t.Fatal(err)
	}
}

// working returns a source whose relay has all lanes and is tried.
func working(t *testing.T, db *pgxpool.Pool) (*Source, relay.Claim) {
	t.Helper()
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("working"))
	report(t, s, c.Owner, relay.StandingTried, 0)
	return s, c
}

// A process registers and dies, again and again: under whatever name, the one that works is asked for nothing.
func TestRelaysThatRegisterAndDieHaveNoShare(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, c := working(t, db)
	s := openSource(t, db, Config{})
	for range 20 {
		same(t, "lanes of a process that dies", reclaim(t, s, relay.Claim{Owner: owner("crashing")}).Lanes, nil)
		same(t, "the view of the one that works", look(t, a, c.Owner), relay.View{Relays: 1})
	}
	same(t, "lanes of the one that works", reclaim(t, a, c), c)
}

// Free lanes are no exception: the one that works takes them all but one, whatever registers.
func TestANewcomerTakesOneFreeLaneBesideOneThatWorks(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, c := working(t, db)
	if err := a.Release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	b := openSource(t, db, Config{})
	first := claim(t, b, owner("b"))
	same(t, "lanes of a newcomer", first.Lanes, []int32{0})
	same(t, "lanes of a newcomer that claims again", reclaim(t, b, first).Lanes, []int32{0})
	report(t, b, first.Owner, relay.StandingTried, 0)
	same(t, "its lanes when it is tried", reclaim(t, b, first).Lanes, []int32{0, 1, 2, 3})
}

// The lanes of a relay that is alone are its own from the first claim on: of dead ones, as after a restart, nothing is left to wait for.
func TestANewcomerTakesAllLanesWhenNobodyElseWorks(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	working(t, db)
	expire(t, db)
	same(t, "lanes of a newcomer", claim(t, openSource(t, db, Config{}), owner("b")).Lanes, allLanes)
}

func TestOneNewcomerIsTriedAtATime(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, c := working(t, db)
	b, d := openSource(t, db, Config{}), openSource(t, db, Config{})
	ob, od := owner("b"), owner("d")
	reclaim(t, b, relay.Claim{Owner: ob})
	reclaim(t, d, relay.Claim{Owner: od})
	view := func(what string, want relay.View) {
		t.Helper()
		v := look(t, a, c.Owner)
		v.Expires = 0
		same(t, what, v, want)
	}
	view("the view of two that have just registered", relay.View{Relays: 1})
	report(t, b, ob, relay.StandingAlive, 0)
	report(t, d, od, relay.StandingAlive, 0)
	// Who has reported is there for two seconds, here for as long as the test takes.
	exec(t, db, `UPDATE outbox.relay SET seen_at = seen_at + interval '1 hour'`)
	view("the view of two newcomers", relay.View{Relays: 1, Newcomer: true})
	same(t, "a newcomer's own view", look(t, b, relay.Owner{ID: ob.ID}).Relays, 2)
	if err := a.Release(t.Context(), relay.Claim{Owner: c.Owner, Lanes: []int32{7}, Epochs: []int64{1}}); err != nil {
		t.Fatal(err)
	}
	one := reclaim(t, b, relay.Claim{Owner: ob})
	same(t, "the lane to be tried with", one.Lanes, []int32{7})
	view("the view while one is being tried", relay.View{Relays: 1, Holder: ob})
	report(t, b, ob, relay.StandingAlive, 0)
	view("the view when it reports and has not worked yet", relay.View{Relays: 1, Holder: ob})
	report(t, b, ob, relay.StandingTried, 0)
	view("the view when it has worked", relay.View{Relays: 2, Newcomer: true, Holder: ob})
	report(t, b, ob, relay.StandingAlive, 0)
	view("the view when it says less than before", relay.View{Relays: 2, Newcomer: true, Holder: ob})
	exec(t, db, `UPDATE outbox.relay SET seen_at = clock_timestamp() - interval '3 seconds' WHERE owner = $1`, od.ID)
	view("the view when the other one says nothing any more", relay.View{Relays: 2, Holder: ob})
}

// The lane that a newcomer died with is not followed by another one before it has run out.
func TestANewcomerThatDiesWithItsLaneKeepsTheOthersFromIt(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, c := working(t, db)
	if err := a.Release(t.Context(), relay.Claim{Owner: c.Owner, Lanes: []int32{7}, Epochs: []int64{1}}); err != nil {
		t.Fatal(err)
	}
	s := openSource(t, db, Config{})
	claim(t, s, owner("crashing"))
	for range 3 {
		o := owner("crashing")
		reclaim(t, s, relay.Claim{Owner: o})
		report(t, s, o, relay.StandingAlive, 0)
		v := look(t, a, c.Owner)
		same(t, "relays that share, and whether a newcomer is to be tried", []any{v.Relays, v.Newcomer}, []any{1, false})
	}
	exec(t, db, `UPDATE outbox.lane SET expires_at = clock_timestamp() - interval '1 ms' WHERE lane = 7`)
	exec(t, db, `UPDATE outbox.relay SET seen_at = clock_timestamp() + interval '1 hour'`) // not gone yet, however long this takes
	same(t, "whether one is to be tried when the lane has run out", look(t, a, c.Owner).Newcomer, true)
}

// A relay of a version that reports nothing counts as it always did.
func TestARelayThatKnowsNoStandingCountsInFull(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, c := working(t, db)
	exec(t, db, `INSERT INTO outbox.relay (source, owner, name, version, expires_at)
SELECT id, gen_random_uuid(), 'older', '0.1', clock_timestamp() + interval '1 h' FROM outbox.source`)
	same(t, "the view", look(t, a, c.Owner), relay.View{Relays: 2})
}

func TestLookTellsHowLongAgoAnotherRelayCouldPublish(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, c := working(t, db)
	b, d := openSource(t, db, Config{}), openSource(t, db, Config{})
	ob, od := owner("b"), owner("d")
	reclaim(t, b, relay.Claim{Owner: ob})
	reclaim(t, d, relay.Claim{Owner: od})
	proved := func(what string, most time.Duration) {
		t.Helper()
		if ago := look(t, a, c.Owner).Proved; ago < most || ago > most && (most == 0 || ago > most+time.Minute) {
			t.Errorf("%s: another relay could publish %s ago, want %s", what, ago, most)
		}
	}
	report(t, a, c.Owner, relay.StandingTried, time.Second)
	report(t, b, ob, relay.StandingAlive, 0)
	proved("only this relay has proved it", 0)
	report(t, b, ob, relay.StandingAlive, time.Hour)
	proved("one has", time.Hour)
	report(t, d, od, relay.StandingTried, 20*time.Minute)
	proved("two have, the second later", 20*time.Minute)
	report(t, d, od, relay.StandingTried, time.Hour)
	proved("an earlier proof arrives late", 20*time.Minute)
	exec(t, db, `UPDATE outbox.relay SET expires_at = clock_timestamp() - interval '1 ms' WHERE owner = $1`, od.ID)
	proved("the second has died", time.Hour)
}

func TestAReportOfARelayThatHasLeftChangesNothing(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	report(t, s, c.Owner, relay.StandingTried, time.Second)
	same(t, "registered relays", queryOne[int](t, db, `SELECT count(*) FROM outbox.relay`), 0)
}

func TestAReportToAReadOnlyServerEndsTheTerm(t *testing.T) {
	t.Parallel()
	s := openSource(t, readOnly(t, newDatabase(t)), Config{})
	if err := s.Report(context.Background(), owner("a"), relay.Report{}); !errors.Is(err, relay.ErrServerChanged) {
		t.Errorf("Report = %v, want ErrServerChanged", err)
	}
}

func standBy(t *testing.T, s *Source, o relay.Owner, r relay.Report) {
	t.Helper()
	if err := s.StandBy(t.Context(), o, ttl, r); err != nil {
		t.Fatal(err)
	}
}

// It is there, Kafka does not answer it, and nobody makes room for it, whatever it was before.
func TestARelayThatStandsByIsSeenAndHasNoShare(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, c := working(t, db)
	b, ob := openSource(t, db, Config{}), owner("b")
	for _, before := range []string{"nothing", "tried"} {
		if before == "tried" {
			reclaim(t, b, relay.Claim{Owner: ob})
			report(t, b, ob, relay.StandingTried, time.Hour)
			same(t, "relays that share while it is tried", look(t, a, c.Owner).Relays, 2)
		}
		standBy(t, b, ob, relay.Report{Standing: relay.StandingTried, Proved: time.Hour, Silent: time.Hour})
		same(t, "the view of the one that works, of one that was "+before, look(t, a, c.Owner), relay.View{Relays: 1})
		same(t, "its lanes", reclaim(t, a, c), c)
		st, err := a.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(st.Relays) != 2 {
			t.Fatalf("relays seen: %+v, want two", st.Relays)
		}
		r := st.Relays[1]
		if ago := st.At.Sub(r.SilentSince); r.ID != ob.ID || r.Remaining <= 0 || ago < time.Hour || ago > time.Hour+time.Minute {
			t.Errorf("the relay that stands by, was %s: %+v, silent for %s; want it alive, and silent for an hour", before, r, ago)
		}
	}
	standBy(t, b, ob, relay.Report{})
	same(t, "relays whose Kafka is silent when it answers again", queryOne[int](t, db, `SELECT count(*) FROM outbox.relay WHERE silent_since IS NOT NULL`), 0)
	if err := b.Leave(t.Context(), relay.Claim{Owner: ob}); err != nil {
		t.Fatal(err)
	}
	same(t, "relays when it has left", queryOne[[]string](t, db, `SELECT array(SELECT name FROM outbox.relay)`), []string{"working"})
}
