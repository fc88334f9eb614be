package relay

import (
	"context"
	"errors"
	"testing"
	"time"
)

var firstOrder = Aggregate{Type: "Order", ID: "1"}

// scopedGate is a gate of two lanes that has one of them; what fails stops its aggregate.
func scopedGate() *gate {
	g := newGate(100, 1<<20, time.Now, 2, []int32{0})
	g.scope = newScope(func(outcome) bool { return true })
	return g
}

func ofFirstOrder(id int64, key Key) *Event {
	e := testEvent(id, key)
	e.Aggregate = firstOrder
	return e
}

var errTooBad = &PublishError{Class: ClassEvent, Code: "TOO_BAD", Err: errors.New("it is bad")}

func wantStops(t *testing.T, g *gate, want bool) {
	t.Helper()
	if _, stopped := g.rootOf(firstOrder); stopped != want {
		t.Errorf("the aggregate is stopped: %v, want %v", stopped, want)
	}
}

func TestAggregateStopsInTheStepThatStopsItsKey(t *testing.T) {
	t.Parallel()
	g := scopedGate()
	bad, next := ofFirstOrder(1, keyIn("orders", 0, 0)), ofFirstOrder(2, keyIn("stock", 0, 0))
	g.admit([]*Event{bad})
	g.resolve([]outcome{{bad, errTooBad}})
	if ready := g.admit([]*Event{next}); len(ready) > 0 {
		t.Errorf("admitted: %v, want nothing, before anything is written down", ids(ready))
	}
	if met := g.takeMet(); len(met) != 1 || met[0].event.Ref() != next.Ref() || met[0].event.Payload != nil {
		t.Errorf("followers: %+v, want event 2 without its payload", met)
	}
}

func TestGateKnowsTheRootsOfItsOwnLanesBetterThanALook(t *testing.T) {
	t.Parallel()
	g := scopedGate()
	own, other := keyIn("orders", 0, 0), keyIn("orders", 1, 0)
	stale := StoppedAggregate{firstOrder, own, Ref{ID: 1}}
	g.setRoots([]StoppedAggregate{stale})
	wantStops(t, g, false) // it has gone on since the look
	g.park(own)
	g.stopAggregate(stale)
	g.setRoots(nil)
	wantStops(t, g, true) // it is not written down yet
	g.unpark(own)
	wantStops(t, g, false)
	g.setRoots([]StoppedAggregate{{firstOrder, other, Ref{ID: 2}}})
	wantStops(t, g, true)
	g.setRoots(nil)
	wantStops(t, g, false)
}

func TestOnlyWhatWillBeParkedStopsItsAggregate(t *testing.T) {
	t.Parallel()
	passing := &PublishError{Class: ClassEvent, Code: "CORRUPT_MESSAGE", Passing: true, Err: errors.New("damaged")}
	deadly := &PublishError{Class: ClassEvent, Code: CodeCrashLoop, Err: errors.New("deadly")}
	for name, c := range map[string]struct {
		policy Policy
		made   int
		err    error
		want   bool
	}{
		"at once":                        {Policy{ParkScope: ScopeAggregate}, 0, errTooBad, true},
		"key alone":                      {Policy{}, 0, errTooBad, false},
		"to be tried again":              {Policy{ParkScope: ScopeAggregate, MaxAttempts: 3}, 1, errTooBad, false},
		"after its last attempt":         {Policy{ParkScope: ScopeAggregate, MaxAttempts: 3}, 2, errTooBad, true},
		"what time may cure":             {Policy{ParkScope: ScopeAggregate}, 0, passing, false},
		"what time has not cured":        {Policy{ParkScope: ScopeAggregate}, DefaultAttempts - 1, passing, true},
		"dead letter":                    {Policy{ParkScope: ScopeAggregate, OnFailure: DeadLetter}, 0, errTooBad, false},
		"skipped":                        {Policy{ParkScope: ScopeAggregate, OnFailure: Skip}, 0, errTooBad, false},
		"what ends relays, when skipped": {Policy{ParkScope: ScopeAggregate, OnFailure: Skip}, 0, deadly, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := ofFirstOrder(1, keyA)
			term := &term{Relay: &Relay{cfg: Config{Policies: []Policy{c.policy}}.withDefaults()}}
			if c.made > 0 {
				term.attempts.know(e.Ref(), c.made)
			}
			if got := term.parks(outcome{e, c.err}); got != c.want {
				t.Errorf("stops its aggregate: %v, want %v", got, c.want)
			}
			if e.Aggregate = (Aggregate{}); term.parks(outcome{e, c.err}) {
				t.Error("an event of no aggregate stops one")
			}
		})
	}
}

// parkElsewhere parks a key that a relay has which the test does not run, as the root of the first order.
func (w *world) parkElsewhere(key Key, lane int) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	w.table.lanes[lane] = fakeLane{owner: Owner{Name: "elsewhere"}, expires: time.Now().Add(24 * time.Hour)}
	w.table.parked[key] = ParkedKey{Key: key, Event: Ref{ID: 1000}, Code: "TOO_BAD", Aggregate: firstOrder}
}

func TestStoppedAggregatesAreKnownBeforeATermsFirstEvent(t *testing.T) {
	inWorld(t, func(w *world) {
		shared(2, w)
		key := keyIn("stock", 1, 0)
		w.parkElsewhere(keyIn("orders", 0, 0), 0)
		w.table.insertOf("1", key)
		r := w.relay(Config{Policies: byAggregate}).start()
		w.untilParked(key, CodeAggregateParked)
		w.wantRecords(key)
		r.wantStopped()
	})
}

func TestStoppedAggregatesAreKnownBeforeAGainedLanesFirstEvent(t *testing.T) {
	inWorld(t, func(w *world) {
		shared(3, w)
		key, root := keyOf("stock", 1, 3), keyOf("orders", 2, 3)
		for lane, free := range map[int]time.Duration{1: 10 * time.Second, 2: 24 * time.Hour} {
			w.table.lanes[lane] = fakeLane{owner: Owner{Name: "elsewhere"}, expires: time.Now().Add(free)}
		}
		r := w.relay(Config{Policies: byAggregate})
		r.source.after.set(func(_ context.Context, op string) error {
			if op == "claim" && r.Stats().Lanes == 1 {
				// The look that has found the lane free did not find this.
				w.table.mu.Lock()
				w.table.parked[root] = ParkedKey{Key: root, Event: Ref{ID: 1000}, Code: "TOO_BAD", Aggregate: firstOrder}
				w.table.mu.Unlock()
			}
			return nil
		})
		w.table.insertOf("1", key)
		r.start()
		w.untilParked(key, CodeAggregateParked)
		w.wantRecords(key)
		r.wantStopped()
	})
}

func TestRootOfATopicThatParksKeysAloneStopsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		shared(2, w)
		key := keyIn("stock", 1, 0)
		w.parkElsewhere(keyIn("orders", 0, 0), 0)
		w.table.insertOf("1", key)
		r := w.relay(Config{Policies: []Policy{{Topics: "stock", ParkScope: ScopeAggregate}}}).start()
		w.untilPublished()
		r.wantStopped()
	})
}
