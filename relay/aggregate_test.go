package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// byAggregate parks aggregates.
var byAggregate = []Policy{{ParkScope: ScopeAggregate}}

// keyIn returns the n-th key of a topic in a lane of two.
func keyIn(topic string, lane int32, n int) Key {
	for i := 0; ; i++ {
		if key := (Key{topic, fmt.Sprint(topic, i)}); Lane(key.PartitionKey, 2) == lane {
			if n--; n < 0 {
				return key
			}
		}
	}
}

// keyOf returns a key of a topic in a lane of so many.
func keyOf(topic string, lane int32, lanes int) Key {
	for i := 0; ; i++ {
		if key := (Key{topic, fmt.Sprint(topic, i)}); Lane(key.PartitionKey, lanes) == lane {
			return key
		}
	}
}

// badWhile fails an event as long as it is told to.
type badWhile struct {
	event  *Event
	mended atomic.Bool
}

func (b *badWhile) fail(e *Event) error {
	if e.ID == b.event.ID && !b.mended.Load() {
		return &PublishError{Class: ClassEvent, Code: "TOO_BAD", Topic: e.Topic, Err: errors.New("it is bad")}
	}
	return nil
}

// mend lets the event be published, and the operator let its key go on.
func (w *world) mend(b *badWhile) {
	b.mended.Store(true)
	w.table.request("retry", b.event.Key())
}

func (w *world) untilParked(key Key, code string) {
	w.t.Helper()
	w.until(fmt.Sprintf("%v parked as %s", key, code), func() bool { return w.table.parkedAs(key) == code })
}

func TestEventsOfAParkedAggregateWaitInOtherKeysUntilTheirRootGoesOn(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := &badWhile{event: w.table.insertOf("1", keyA)}
		r := w.relay(Config{Policies: byAggregate})
		r.publisher.fail = bad.fail
		r.start()
		w.untilParked(keyA, "TOO_BAD")
		w.table.insertOf("2", keyB)
		follower := w.table.insertOf("1", keyB)
		w.table.insertOf("2", keyB)
		w.table.insertOf("2", keyC)
		w.untilParked(keyB, CodeAggregateParked)
		after(10 * time.Second)
		w.wantRecords(keyB, 2)
		w.wantRecords(keyC, 5)
		if _, has := w.table.record(follower.Ref()); has {
			t.Error("the follower has a failed attempt; nothing was tried with it")
		}
		if n := r.Stats().ParkedKeys; n != 2 {
			t.Errorf("%d parked keys, want the root's and the follower's", n)
		}
		w.mend(bad)
		w.untilPublished()
		r.wantStopped()
		w.wantRecords(keyA, 1)
		w.wantRecords(keyB, 2, 3, 4)
		if left := w.table.parkedKeys(); len(left) > 0 {
			t.Errorf("still parked: %v", left)
		}
	})
}

func TestFollowerIsToldWhatItWaitsFor(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insertOf("1", keyA)
		r := w.relay(Config{Policies: byAggregate})
		r.publisher.fail = rejects(bad)
		r.start()
		w.untilParked(keyA, "TOO_BAD")
		w.table.insertOf("1", keyC)
		w.untilParked(keyC, CodeAggregateParked)
		r.wantStopped()
		got := w.table.parked[keyC]
		if got.Aggregate != bad.Aggregate || !strings.Contains(got.Reason, bad.EventID.String()) || !strings.Contains(got.Reason, "orders") {
			t.Errorf("parked: %+v, want that it names event %s of topic orders", got, bad.EventID)
		}
	})
}

func TestParkScopeKeyStopsItsKeyAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insertOf("1", keyA)
		r := w.relay(Config{Policies: []Policy{{Topics: keyC.Topic, ParkScope: ScopeAggregate}}})
		r.publisher.fail = rejects(bad)
		r.start()
		w.untilParked(keyA, "TOO_BAD")
		w.table.insertOf("1", keyB)
		w.table.insertOf("1", keyC)
		w.until("the others published", func() bool { return w.table.open() == 1 })
		r.wantStopped()
		w.wantRecords(keyC, 3)
	})
}

func TestEventWithoutAnAggregateStopsNoOther(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		r := w.relay(Config{Policies: byAggregate})
		r.publisher.fail = rejects(bad)
		r.start()
		w.untilParked(keyA, "TOO_BAD")
		w.table.insert(keyB)
		w.until("the other published", func() bool { return w.table.open() == 1 })
		r.wantStopped()
	})
}

func TestWaitingEventsOfABusyKeyDoNotPassTheirParkedAggregate(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		bad := &badWhile{event: &Event{ID: 3}}
		r := w.relay(Config{Policies: byAggregate})
		r.publisher.hold, r.publisher.fail = answer.of(keyB), bad.fail
		w.table.insertOf("2", keyB)
		r.start()
		w.until("outstanding", func() bool { return r.Stats().Outstanding == 1 })
		w.table.insertOf("1", keyB)
		w.until("waiting", func() bool { return r.Stats().InFlight == 2 })
		bad.event = w.table.insertOf("1", keyA)
		w.untilParked(keyA, "TOO_BAD")
		answer.letGo()
		w.untilParked(keyB, CodeAggregateParked)
		w.wantRecords(keyB, 1)
		w.mend(bad)
		w.untilPublished()
		r.wantStopped()
		w.wantRecords(keyB, 1, 2)
	})
}

func TestEarlierEventOfAFollowerThatFailsIsDecidedOnFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		r := w.relay(Config{Policies: byAggregate})
		worse := w.table.insertOf("2", keyB)
		r.publisher.hold = answer.of(keyB)
		bad := w.table.insertOf("1", keyA)
		r.publisher.fail = rejects(bad, worse)
		r.start()
		w.untilParked(keyA, "TOO_BAD")
		w.table.insertOf("1", keyB)
		after(time.Second)
		answer.letGo()
		w.until("parked", func() bool { return w.table.parkedAs(keyB) != "" })
		if got := w.table.parked[keyB]; got.Event != worse.Ref() || got.Code != "TOO_BAD" {
			t.Errorf("the key is parked at %+v, want at its own bad event", got)
		}
		r.wantStopped()
	})
}

func TestFollowerInAnotherRelaysLaneStopsWithinALookAndGoesOnByItself(t *testing.T) {
	inWorld(t, func(w *world) {
		here, there, other := keyIn("orders", 0, 0), keyIn("stock", 1, 0), keyIn("stock", 1, 1)
		shared(2, w)
		bad := &badWhile{event: w.table.insertOf("1", here)}
		relays := []*running{w.relay(Config{Name: "one", Policies: byAggregate}), w.relay(Config{Name: "two", Policies: byAggregate})}
		for _, r := range relays {
			r.publisher.fail = bad.fail
			r.start()
		}
		w.wantShares(relays, 1, 1)
		w.untilParked(here, "TOO_BAD")
		after(time.Second) // a look, and a little more
		w.table.insertOf("1", there)
		w.table.insertOf("2", other)
		w.untilParked(there, CodeAggregateParked)
		w.until("the other aggregate published", func() bool { return w.table.open() == 2 })
		w.mend(bad)
		w.untilPublished()
		for _, r := range relays {
			r.wantStopped()
		}
		w.wantRecords(there, 2)
	})
}

func TestFollowerStaysStoppedAndGoesOnAfterAnEndOfItsRelay(t *testing.T) {
	for _, how := range []string{"restart", "take-over", "killed before the follower is written down"} {
		t.Run(how, func(t *testing.T) {
			inWorld(t, func(w *world) {
				bad := &badWhile{event: w.table.insertOf("1", keyA)}
				first := w.relay(Config{Name: "first", Policies: byAggregate})
				first.publisher.fail = bad.fail
				if how == "killed before the follower is written down" {
					first.source.before.set(func(_ context.Context, op string) error {
						if op == "park" && w.table.parked[keyA].Code != "" {
							return errBroken
						}
						return nil
					})
				}
				first.start()
				w.untilParked(keyA, "TOO_BAD")
				w.table.insertOf("1", keyB)
				if how == "killed before the follower is written down" {
					after(10 * time.Second)
				} else {
					w.untilParked(keyB, CodeAggregateParked)
				}
				if how == "take-over" {
					w.table.steal(time.Now().Add(time.Second))
				}
				_ = first.stop()
				second := w.relay(Config{Name: "second", Policies: byAggregate})
				second.publisher.fail = bad.fail
				second.start()
				w.table.insertOf("1", keyC)
				w.untilParked(keyC, CodeAggregateParked)
				w.untilParked(keyB, CodeAggregateParked)
				w.wantRecords(keyB)
				w.mend(bad)
				w.untilPublished()
				second.wantStopped()
				w.wantRecords(keyB, 2)
				w.wantRecords(keyC, 3)
			})
		})
	}
}

func TestRelayWithParkScopeKeyLetsFollowersGoOn(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insertOf("1", keyA)
		for _, cfg := range []Config{{Policies: byAggregate}, {Once: true}} {
			r := w.relay(cfg)
			r.publisher.fail = rejects(bad)
			r.start()
			w.untilParked(keyA, "TOO_BAD")
			if !cfg.Once {
				w.table.insertMany(1200, func(i int) Key { return Key{"payments", fmt.Sprint(i)} })
				for _, row := range w.table.rows[1:] {
					row.event.Aggregate = bad.Aggregate
				}
				w.until("all followers parked", func() bool { return len(w.table.parkedKeys()) == 1201 })
				r.wantStopped()
				continue
			}
			if err := <-r.ran; err != nil {
				t.Error(err)
			}
			r.ran <- nil
		}
		if n := w.table.open(); n != 1 {
			t.Errorf("%d events are left, want the bad one alone", n)
		}
	})
}

func TestEventThatIsTriedAgainOrGivenUpStopsNoAggregate(t *testing.T) {
	for name, p := range map[string]Policy{
		"tried again": {MaxAttempts: 1000, MinBackoff: time.Minute}, "dead letter": {OnFailure: DeadLetter, DeadLetterTopic: "dead"}, "skipped": {OnFailure: Skip},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				bad := w.table.insertOf("1", keyA)
				p.ParkScope = ScopeAggregate
				r := w.relay(Config{Policies: []Policy{p}})
				r.publisher.fail = rejects(bad)
				r.start()
				w.until("failed", func() bool { return r.Stats().Errors[ClassEvent] > 0 })
				w.table.insertOf("1", keyB)
				w.until("the other published", func() bool { return len(w.kafka.of(keyB)) == 1 })
				r.wantStopped()
				if left := w.table.parkedKeys(); len(left) > 0 {
					t.Errorf("parked: %v", left)
				}
			})
		})
	}
}

func TestEventThatIsParkedAfterItsLastAttemptStopsItsAggregate(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insertOf("1", keyA)
		r := w.relay(Config{Policies: []Policy{{ParkScope: ScopeAggregate, MaxAttempts: 3, MinBackoff: time.Second}}})
		r.publisher.fail = rejects(bad)
		r.start()
		w.untilParked(keyA, "TOO_BAD")
		w.table.insertOf("1", keyB)
		w.untilParked(keyB, CodeAggregateParked)
		r.wantStopped()
	})
}

func TestDeadLetterThatNobodyTakesStopsTheAggregate(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insertOf("1", keyA)
		r := w.relay(Config{Policies: []Policy{{ParkScope: ScopeAggregate, OnFailure: DeadLetter, DeadLetterTopic: "dead"}}})
		r.publisher.fail = rejects(bad)
		r.publisher.failLetter = func(l Letter) error {
			return &PublishError{Class: ClassEvent, Code: "TOO_LONG", Topic: l.Topic, Err: errors.New("it is too long")}
		}
		r.start()
		w.untilParked(keyA, "TOO_BAD")
		w.table.insertOf("1", keyB)
		w.untilParked(keyB, CodeAggregateParked)
		r.wantStopped()
	})
}

func TestAggregateGoesOnWhenItsLastRootDoes(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		bad, worse := w.table.insertOf("1", keyA), w.table.insertOf("1", keyC)
		var mendedA, mendedC atomic.Bool
		r := w.relay(Config{Policies: byAggregate})
		r.publisher.hold = answer.all // both are on their way when the first of them fails
		r.publisher.fail = func(e *Event) error {
			if e.ID == bad.ID && mendedA.Load() || e.ID == worse.ID && mendedC.Load() {
				return nil
			}
			return rejects(bad, worse)(e)
		}
		r.start()
		w.until("outstanding", func() bool { return r.Stats().Outstanding == 2 })
		answer.letGo()
		w.untilParked(keyA, "TOO_BAD")
		w.untilParked(keyC, "TOO_BAD")
		w.table.insertOf("1", keyB)
		w.untilParked(keyB, CodeAggregateParked)
		mendedA.Store(true)
		w.table.request("retry", keyA)
		w.untilParked(keyA, CodeAggregateParked) // its own event is mended, and belongs to what the other stops
		after(10 * time.Second)
		w.wantRecords(keyA)
		mendedC.Store(true)
		w.table.request("retry", keyC)
		w.untilPublished()
		r.wantStopped()
		if left := w.table.parkedKeys(); len(left) > 0 {
			t.Errorf("still parked: %v", left)
		}
	})
}

func TestFollowerThatIsUnparkedByItselfIsParkedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insertOf("1", keyA)
		r := w.relay(Config{Policies: byAggregate})
		r.publisher.fail = rejects(bad)
		r.start()
		w.untilParked(keyA, "TOO_BAD")
		w.table.insertOf("1", keyB)
		w.untilParked(keyB, CodeAggregateParked)
		w.table.request("retry", keyB)
		w.until("request done", func() bool { return w.table.requestsOpen() == 0 })
		w.untilParked(keyB, CodeAggregateParked)
		w.wantRecords(keyB)
		r.wantStopped()
	})
}

func TestOnceWaitsForFollowersThatMayGoOn(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.table.insertOf("1", keyB)
		w.table.parked[keyB] = ParkedKey{Key: keyB, Event: e.Ref(), Code: CodeAggregateParked, Aggregate: e.Aggregate}
		r := w.relay(Config{Policies: byAggregate, Once: true}).start()
		if err := <-r.ran; err != nil {
			t.Error(err)
		}
		r.ran <- nil
		w.wantRecords(keyB, 1)
	})
}

func TestSourceWithoutAggregatesRefusesTheirScope(t *testing.T) {
	t.Parallel()
	type plain struct{ Source }
	_, err := New(plain{&fakeSource{table: newFakeTable()}}, &fakePublisher{kafka: newFakeKafka(), maxDelay: testDelay}, Config{Policies: byAggregate})
	if err == nil || !strings.Contains(err.Error(), "park-scope aggregate") {
		t.Errorf("error %v, want that the source cannot read aggregates", err)
	}
}

func TestLaneIsNotGivenBackWhileAFollowerOfItIsFreed(t *testing.T) {
	t.Parallel()
	g := newGate(10, 1<<20, time.Now, 2, []int32{0, 1})
	key := keyIn("orders", 1, 0)
	g.park(key)
	g.followed(key, Aggregate{"Order", "1"})
	if keys := g.takeLoose(10); !slices.Equal(keys, []Key{key}) {
		t.Fatalf("loose: %v, want the key", keys)
	}
	if busy := g.busy([]int32{0, 1}); !slices.Equal(busy, []int32{1}) {
		t.Errorf("busy: %v, want lane 1", busy)
	}
	g.freed([]Key{key}, []Key{key})
	if busy := g.busy([]int32{0, 1}); len(busy) > 0 || g.looseAny() || g.parkedKeys() > 0 {
		t.Errorf("busy: %v, loose: %v, %d parked; want nothing left", busy, g.looseAny(), g.parkedKeys())
	}
}
