package relay

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// network is the way to the brokers, which can be cut.
type network struct {
	mu     sync.Mutex
	healed chan struct{}
}

// between puts the network between relays and the brokers.
func between(relays ...*running) *network {
	n := &network{}
	for _, r := range relays {
		r.publisher.hold = func(*Event) <-chan struct{} { return n.state() }
		r.publisher.onOpen = func(context.Context) error {
			if n.state() != nil {
				return failure(ClassOutage)
			}
			return nil
		}
	}
	return n
}

// state is nil while the network works.
func (n *network) state() chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.healed
}

func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.healed = make(chan struct{})
}

func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.healed)
	n.healed = nil
}

// newProcess is a relay process that a test moves by hand.
func (w *world) newProcess() (*fakeSource, Owner) {
	return &fakeSource{table: w.table}, Owner{ID: uuid.New(), Name: "crashing"}
}

func (w *world) mustClaim(s *fakeSource, o Owner) Claim {
	w.t.Helper()
	c, err := s.Claim(w.t.Context(), o, testTTL, Claim{Owner: o})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func TestARelayThatRegistersAndCrashesInALoopTakesNoLanes(t *testing.T) {
	inWorld(t, func(w *world) {
		healthy := shared(8, w).named(1)
		healthy[0].start()
		w.wantShares(healthy, 8)
		for range 200 {
			s, o := w.newProcess()
			w.mustClaim(s, o)
			after(300 * time.Millisecond)
			if n := w.table.has(healthy[0].owner); n != 8 {
				t.Fatalf("the healthy relay has %d lanes", n)
			}
		}
		if n := healthy[0].log.count("given back"); n > 0 {
			t.Errorf("it gave lanes back %d times", n)
		}
	})
}

// It lives long enough to be given a lane, and crashes with it.
func TestARelayThatCrashesWithItsFirstLaneTakesOneAtATime(t *testing.T) {
	inWorld(t, func(w *world) {
		healthy := shared(8, w).named(1)
		healthy[0].start()
		w.wantShares(healthy, 8)
		crashes := 0
		for range 50 {
			s, o := w.newProcess()
			for turn := 0; len(w.mustClaim(s, o).Lanes) == 0 && turn < 10; turn++ {
				after(400 * time.Millisecond)
				if err := s.Report(t.Context(), o, Report{Standing: StandingAlive}); err != nil {
					t.Fatal(err)
				}
				if n := w.table.has(healthy[0].owner); n < 7 {
					t.Fatalf("the healthy relay has %d lanes", n)
				}
			}
			crashes += min(w.table.has(o), 1)
		}
		if crashes == 0 {
			t.Error("no process was given a lane: this test proves nothing")
		}
		after(testTTL + 3*time.Second)
		w.wantShares(healthy, 8)
	})
}

func TestANewRelayHasItsShareWithinSeconds(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(8, w).named(3)
		relays[0].start()
		w.wantShares(relays[:1], 8)
		for i, want := range [][]int{{4, 4}, {2, 3, 3}} {
			joined := time.Now()
			relays[i+1].start()
			w.wantShares(relays[:i+2], want...)
			if took := time.Since(joined); took > 3500*time.Millisecond {
				t.Errorf("the shares of %d relays were %v after %s", i+2, want, took)
			}
		}
	})
}

// Free lanes go to all that are there, also to those that have only waited until now.
func TestARelayThatHasWaitedLongCountsInFull(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(2, w).named(4)
		for _, r := range relays {
			r.start()
		}
		after(10 * time.Second)
		w.table.mu.Lock()
		defer w.table.mu.Unlock()
		for id, r := range w.table.relays {
			if r.standing != StandingTried {
				t.Errorf("relay %s has standing %d", id, r.standing)
			}
		}
	})
}

// A newcomer that gets no answer from Kafka is left the one lane that it was to be tried with, until it has to leave that too.
func TestANewcomerThatPublishesNothingGetsNoShare(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(8, w).named(2)
		relays[1].publisher.hold = newHeld().all
		relays[0].start()
		w.wantShares(relays[:1], 8)
		stop := w.writeOn()
		relays[1].start()
		most := 0
		for range 600 {
			after(100 * time.Millisecond)
			most = max(most, w.table.has(relays[1].owner))
		}
		if most != 1 {
			t.Errorf("a relay that gets no answer had %d lanes, want 1", most)
		}
		if relays[1].log.count(errResigned.Error()) == 0 {
			t.Error("it never gave its lane up")
		}
		stop()
		relays[1].wantStoppedAnyhow()
		w.untilPublished()
	})
}

// wantStoppedAnyhow stops a relay that may leave something behind.
func (r *running) wantStoppedAnyhow() { _ = r.stop() }

// writeOn inserts events of forty keys every 200 ms until it is stopped.
func (w *world) writeOn() (stop func()) {
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-ended:
				return
			case <-time.After(200 * time.Millisecond):
				w.table.insertMany(40, spread(40))
			}
		}
	}()
	return func() {
		close(ended)
		<-over
	}
}

// wantOrder wants the first record of each event of a key in order, and no repetition that leaves an older event as the last.
func (w *world) wantOrder() {
	w.t.Helper()
	for i := range 40 {
		ids := w.kafka.of(spread(40)(i))
		seen, last := map[int64]bool{}, int64(0)
		for _, id := range ids {
			if !seen[id] && id < last {
				w.t.Errorf("key %v turned: %d came after %d", spread(40)(i), id, last)
			}
			seen[id], last = true, max(last, id)
		}
		if len(ids) > 0 && ids[len(ids)-1] != slices.Max(ids) {
			w.t.Errorf("key %v ends with an older event: %v", spread(40)(i), ids)
		}
	}
}

// What was with the brokers when the client was destroyed lands as late as it can.
func TestARelayThatIsCutOffLeavesItsLanesToOneThatIsNot(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(8, w).named(2)
		a, b := relays[0], relays[1]
		a.publisher.onDestroy = func(*Event) time.Duration { return testDelay - time.Millisecond }
		net := between(a)
		a.start()
		b.start()
		w.wantShares(relays, 4, 4)
		stop := w.writeOn()
		for range 3 {
			net.cut()
			began := time.Now()
			w.until("the other has all", func() bool { return w.table.has(b.owner) == 8 })
			if took := time.Since(began); took < 15*time.Second+testDelay || took > 22*time.Second {
				t.Errorf("the lanes of a relay that was cut off changed hands after %s", took)
			}
			after(time.Minute)
			if n := w.table.has(a.owner); n > 0 {
				t.Fatalf("it has %d lanes, cut off as it is", n)
			}
			net.heal()
			w.wantShares(relays, 4, 4)
		}
		stop()
		w.untilPublished()
		w.wantOrder()
	})
}

func TestARelayThatIsCutOffLeavesItsLaneToOneThatWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(1, w).named(2)
		net := between(relays[0])
		relays[0].start()
		w.wantShares(relays[:1], 1)
		relays[1].start()
		after(time.Minute)
		net.cut()
		w.table.insertMany(40, spread(40))
		w.until("the other has the lane", func() bool { return w.table.has(relays[1].owner) == 1 })
		w.untilPublished()
		w.wantOrder()
	})
}

// The other one has nothing to publish for as long as it takes, and shows by asking that it could.
func TestARelayThatIsCutOffLeavesItsLanesToAnIdleOne(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(2, w).named(2)
		a, b := relays[0], relays[1]
		net := between(a)
		a.start()
		b.start()
		w.wantShares(relays, 1, 1)
		w.table.insertMany(40, spread(40))
		w.untilPublished()
		after(10 * time.Minute)
		net.cut()
		w.insertOnlyFor(a)
		w.untilPublished()
		w.wantShares([]*running{b}, 2)
	})
}

// insertOnlyFor inserts an event into each of the relay's lanes.
func (w *world) insertOnlyFor(r *running) {
	w.table.mu.Lock()
	lanes := slices.Clone(w.table.lanes)
	w.table.mu.Unlock()
	for i, lane := range lanes {
		if lane.owner == r.owner {
			w.table.insert(keyOfLane(w.table, int32(i)))
		}
	}
}

// The brokers are away for everybody, if not from the same moment on.
func TestNoLaneMovesWhileNobodyCanPublish(t *testing.T) {
	for _, late := range []time.Duration{0, time.Second, 5 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				relays := shared(8, w).named(2)
				first, second := between(relays[0]), between(relays[1])
				relays[0].start()
				relays[1].start()
				w.wantShares(relays, 4, 4)
				stop := w.writeOn()
				after(time.Second)
				first.cut()
				after(late)
				second.cut()
				after(time.Second)
				stop()
				before := w.changes(relays)
				after(10 * time.Minute)
				if n := w.changes(relays) - before; n > 0 {
					t.Errorf("%d changes: %s\n%s", n, relays[0].log.text.String(), relays[1].log.text.String())
				}
				first.heal()
				second.heal()
				w.untilPublished()
				w.wantShares(relays, 4, 4)
				w.wantOrder()
			})
		})
	}
}

// The brokers answer questions and acknowledge nothing: each relay seems to be able to do what the other cannot.
func TestRelaysDoNotResignInTurnsForEver(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(8, w).named(2)
		net := between(relays...)
		for _, r := range relays {
			r.publisher.onOpen = nil
			r.start()
		}
		w.wantShares(relays, 4, 4)
		w.table.insertMany(40, spread(40))
		w.untilPublished()
		net.cut()
		w.insertOnlyFor(relays[0])
		resigned := func() int { return relays[0].log.count(errResigned.Error()) + relays[1].log.count(errResigned.Error()) }
		after(time.Hour)
		if n := resigned(); n == 0 || n > 20 {
			t.Errorf("relays have resigned %d times in an hour", n)
		}
		net.heal()
		w.untilPublished()
		w.wantShares(relays, 4, 4)
		w.wantOrder()
	})
}

func TestARelayThatStandsBackTakesLanesThatNobodyElseTakes(t *testing.T) {
	inWorld(t, func(w *world) {
		shared(8, w)
		a, b := w.relay(Config{Name: "a", StallTimeout: time.Minute}), w.relay(Config{Name: "b"})
		relays := []*running{a, b}
		net := between(a)
		a.start()
		b.start()
		w.wantShares(relays, 4, 4)
		stop := w.writeOn()
		net.cut()
		w.until("the other has all", func() bool { return w.table.has(b.owner) == 8 })
		net.heal()
		w.until("it looks on", func() bool { return a.Stats().Waiting != "" })
		b.wantStopped()
		stopped := time.Now()
		w.until("it has all again", func() bool { return w.table.has(a.owner) == 8 })
		if took := time.Since(stopped); took > 3*time.Second {
			t.Errorf("nobody had the lanes for %s", took)
		}
		stop()
		w.untilPublished()
	})
}

// changes counts what happens to lanes.
func (w *world) changes(relays []*running) (n int) {
	for _, r := range relays {
		n += r.log.count("relay interrupted") + r.log.count("lanes given back") + r.log.count("lanes taken")
	}
	return n
}

// A stop in the pause after which the lanes would be handed back must not hand them back before.
func TestAStopAfterAResignationHandsNothingBackEarly(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(8, w).named(2)
		a, b := relays[0], relays[1]
		net := between(a)
		a.start()
		b.start()
		w.wantShares(relays, 4, 4)
		stop := w.writeOn()
		net.cut()
		w.until("resigned", func() bool { return a.log.count(errResigned.Error()) > 0 })
		resigned := time.Now()
		a.wantStoppedAnyhow()
		w.until("the other has all", func() bool { return w.table.has(b.owner) == 8 })
		if took := time.Since(resigned); took < testDelay {
			t.Errorf("lanes changed hands %s after the client was destroyed; a record may be on its way for %s", took, testDelay)
		}
		stop()
		w.untilPublished()
	})
}

// Nothing is published while everything is parked, and still it must be known whether Kafka answers: who looks at the incident would be sent to the brokers.
func TestARelayThatStartsWhileEverythingIsParkedGoesOnAskingTheBrokers(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		first := w.relay(Config{Policies: []Policy{{OnFailure: Park}}})
		first.publisher.fail = rejects(bad)
		first.start()
		w.until("parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		first.wantStopped()

		r := w.relay(Config{})
		net := between(r)
		r.start()
		after(2 * time.Minute)
		if ago := w.table.lastProof(r.owner.ID); ago > 30*time.Second {
			t.Errorf("Kafka answered last %s ago", ago)
		}
		net.cut()
		w.until("said to be unanswered", func() bool { return w.table.silent(r.owner.ID) > 0 })
		net.heal()
		r.wantStopped()
	})
}
