package relay

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// steady gives every answer a latency of its own, so that records of two relays that publish the same key come in any order.
func steady(e *Event) time.Duration { return time.Duration(1+e.ID*7919%97) * time.Millisecond }

// writing inserts events of forty keys every 20 ms and returns how many.
func (w *world) writing(rounds int) (n int) {
	for range rounds {
		w.table.insertMany(40, spread(40))
		n += 40
		after(20 * time.Millisecond)
	}
	return n
}

// wantEachOnce wants one record of each event, in order.
func (w *world) wantEachOnce(n int) {
	w.t.Helper()
	if got := w.kafka.size(); got != n {
		w.t.Errorf("%d records of %d events", got, n)
	}
	for i := range 40 {
		if ids := w.kafka.of(spread(40)(i)); !slices.IsSorted(ids) {
			w.t.Errorf("records of %v: events %v", spread(40)(i), ids)
		}
	}
}

// Lanes were claimed, and are to be left before their parked keys are read.
func TestLanesThatAreLeftBeforeTheyAreReadAreNotPublished(t *testing.T) {
	for delay := 50 * time.Millisecond; delay < 900*time.Millisecond; delay += 50 * time.Millisecond {
		t.Run(delay.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				relays := shared(8, w).named(2)
				a, b := relays[0], relays[1]
				a.publisher.latency = steady
				a.start()
				w.wantShares(relays[:1], 8)
				b.start()
				w.wantShares(relays, 4, 4)
				a.source.before.set(func(_ context.Context, op string) error {
					if op == "parked" {
						<-time.After(delay)
					}
					return nil
				})
				b.wantStopped()
				w.until("the first has all lanes", func() bool { return w.table.has(a.owner) == 8 })
				c := w.relay(Config{Name: "third"})
				c.publisher.latency = steady
				c.start()
				w.wantShares([]*running{a, c}, 4, 4)
				n := w.writing(40)
				w.untilPublished()
				w.wantEachOnce(n)
				g := a.counters.gate.Load()
				g.mu.Lock()
				defer g.mu.Unlock()
				if g.lanes.n != 4 {
					t.Errorf("the gate lets %d lanes in, the relay has 4", g.lanes.n)
				}
			})
		})
	}
}

// The server carries out what was sent in an earlier term, after the next term's claim: bytes that were held up in a network.
func TestAReleaseThatArrivesLateFreesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(8, w).named(2)
		a, b := relays[0], relays[1]
		a.publisher.latency, b.publisher.latency = steady, steady
		a.start()
		w.wantShares(relays[:1], 8)
		var cut, arrived atomic.Bool
		old := Claim{Owner: a.owner, Lanes: []int32{4, 5, 6, 7}, Epochs: []int64{1, 1, 1, 1}}
		late := &fakeSource{table: w.table}
		a.source.before.set(func(_ context.Context, op string) error {
			if op == "release" && cut.CompareAndSwap(false, true) {
				time.AfterFunc(300*time.Millisecond, func() {
					_ = late.Release(context.Background(), old)
					_ = late.Leave(context.Background(), old)
					arrived.Store(true)
				})
				return errBroken
			}
			if op == "leave" && !arrived.Load() {
				return errBroken // it is the same connection
			}
			return nil
		})
		b.start()
		w.until("lanes are given back", cut.Load)
		n := w.writing(300)
		w.untilPublished()
		w.wantEachOnce(n)
	})
}

// Operators ask for something while a lane that it concerns is to be given back.
func TestARequestDoesNotEndAHandOver(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(8, w).named(2)
		a, b := relays[0], relays[1]
		a.start()
		w.wantShares(relays[:1], 8)
		for i, r := range relays {
			r.source.before.set(func(_ context.Context, op string) error {
				if op == "requests" {
					<-time.After(time.Duration(1500+2000*i) * time.Millisecond)
				}
				return nil
			})
		}
		for lane := range int32(8) {
			w.table.request("retry", keyOfLane(w.table, lane))
		}
		after(300 * time.Millisecond)
		b.start()
		w.wantShares(relays, 4, 4)
		w.until("every request done", func() bool { return w.table.requestsOpen() == 0 })
		if n := a.log.count("relay interrupted") + b.log.count("relay interrupted"); n > 0 {
			t.Errorf("%d terms ended: %s%s", n, a.log.text.String(), b.log.text.String())
		}
	})
}

// The settler's connection breaks: what is acknowledged is this relay's to settle, before anybody else reads it.
func TestLanesWithUnsettledEventsAreKeptForTheNextTerm(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(2, w).named(2)
		relays[0].start()
		w.wantShares(relays[:1], 2)
		relays[1].start()
		w.wantShares(relays, 1, 1)
		for _, r := range relays {
			r.source.before.set(failing("settle", 1))
		}
		n := w.writing(20)
		w.untilPublished()
		w.wantEachOnce(n)
		if n := relays[0].log.count("relay interrupted"); n != 1 {
			t.Errorf("%d terms ended, want 1", n)
		}
	})
}

func TestARelayThatCannotReachKafkaTakesNoLanes(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(8, w).named(2)
		a, b := relays[0], relays[1]
		var away atomic.Bool
		a.publisher.onOpen = func(context.Context) error {
			if away.Load() {
				<-time.After(5 * time.Second)
				return failure(ClassOutage)
			}
			return nil
		}
		a.start()
		b.start()
		w.wantShares(relays, 4, 4)
		away.Store(true)
		a.source.before.set(failing("look", 1))
		w.until("the other has all", func() bool { return w.table.has(b.owner) == 8 })
		for range 600 {
			after(100 * time.Millisecond)
			if n := w.table.has(a.owner); n > 0 {
				t.Fatalf("it has %d lanes", n)
			}
		}
		away.Store(false)
		w.wantShares(relays, 4, 4)
	})
}

// One key gets no answer: its lane stays, and its neighbours hardly notice.
func TestALaneWithASlowKeyIsNotTheOneThatIsLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(4, w).named(2)
		slow := keyOfLane(w.table, 3)
		hold := newHeld()
		relays[0].publisher.hold = hold.of(slow)
		relays[0].start()
		w.wantShares(relays[:1], 4)
		w.table.insert(slow)
		w.until("it outstanding", func() bool { return relays[0].Stats().Outstanding == 1 })
		after(2 * time.Second)
		relays[1].start()
		w.wantShares(relays, 2, 2)
		if n := relays[0].log.count("lanes kept"); n > 0 {
			t.Error("it tried to leave the lane of the slow key")
		}
		hold.letGo()
		w.untilPublished()
	})
}

// Of three lanes that were to be left one was given back, never read; it is another relay's by now.
func TestOnlyLanesThatWereNotGivenBackAreTakenUpAgain(t *testing.T) {
	t.Parallel()
	s := &share{term: &term{careful: newCareful(8, 0), gate: newGate(10, 1<<20, time.Now, 8, []int32{0}), toGain: newSignal()}, leaving: []int32{1, 2}, unread: []int32{2, 3}}
	s.comeBack()
	if !slices.Equal(s.gate.gained, []int32{1}) || !slices.Equal(s.gained, []int32{2}) {
		t.Errorf("the gate gets %v, housekeeping %v; want 1 and 2", s.gate.gained, s.gained)
	}
}
