package relay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// mortal makes a relay that is killed when it publishes one of the events: from then on it reaches neither side, and its leases run out.
func (w *world) mortal(cfg Config, deadly ...*Event) *running {
	r := w.relay(cfg)
	var dead atomic.Bool
	r.publisher.fail = func(e *Event) error {
		if slices.Contains(deadly, e) && !dead.Swap(true) {
			r.source.before.set(func(context.Context, string) error { return errBroken })
			r.cancel()
		}
		if dead.Load() {
			return errNoClient
		}
		return nil
	}
	return r
}

func TestEventThatEndsOneRelayAfterTheOtherIsParked(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insertMany(200, spread(20))
		deadly := w.table.insert(keyA)
		w.table.insertMany(200, spread(20))
		w.table.insert(keyA)
		deaths := 0
		for len(w.table.parkedKeys()) == 0 {
			r := w.mortal(Config{Name: fmt.Sprint("relay ", deaths)}, deadly).start()
			w.until("dead, or all but one key published", func() bool {
				select {
				case <-r.ended:
					return true
				default:
					return w.table.open() == 2 && len(w.table.parkedKeys()) == 1
				}
			})
			if deaths++; deaths > 20 {
				t.Fatal("20 relays have ended, and no key is parked")
			}
			if len(w.table.parkedKeys()) == 1 {
				w.until("the others published", func() bool { return w.table.open() == 2 })
				r.wantStopped()
			}
		}
		if p := w.table.parked[keyA]; p.Event != deadly.Ref() || p.Code != CodeCrashLoop || !strings.Contains(p.Reason, "5 relays") {
			t.Errorf("parked: %+v", p)
		}
		// The first death is not written down.
		if deaths != 7 {
			t.Errorf("the %dth relay parked the key, want the 7th", deaths)
		}
		// The event behind it may have been in its window, and has not gone out since.
		for ref, r := range w.table.failing {
			if r.Key != keyA {
				t.Errorf("a record of event %d of another key is left: %+v", ref.ID, r)
			}
		}
		if w.table.failing[deadly.Ref()] == nil {
			t.Error("the event has no record")
		}
		if got := w.kafka.of(keyA); len(got) != 0 {
			t.Errorf("records of the key: %v, want none", got)
		}
	})
}

func TestLanesThatWereGivenBackCostNoCare(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 3 {
			w.table.insertMany(500, spread(20))
			r := w.relay(Config{Name: fmt.Sprint(i)})
			r.source.before.set(func(_ context.Context, op string) error {
				if op == "begin" || op == "clear" {
					t.Errorf("a clean run has called %s", op)
				}
				return nil
			})
			r.start()
			w.untilPublished()
			r.wantStopped()
		}
	})
}

func TestCareEndsAndLeavesNothingBehind(t *testing.T) {
	inWorld(t, func(w *world) {
		deadly := w.table.insert(keyA)
		<-w.mortal(Config{Name: "first"}, deadly).start().ended
		w.table.insertMany(1000, spread(20))
		second := w.relay(Config{Name: "second"})
		var begun atomic.Int64
		second.source.before.set(func(_ context.Context, op string) error {
			if op == "begin" {
				begun.Add(1)
			}
			return nil
		})
		second.start()
		w.untilPublished()
		w.until("no record left", func() bool {
			w.table.mu.Lock()
			defer w.table.mu.Unlock()
			return len(w.table.failing) == 0
		})
		if n := begun.Load(); n < 20 || n > 40 {
			t.Errorf("%d windows for 1001 events, want a little more than 20", n)
		}
		before := begun.Load()
		w.table.insertMany(1000, spread(20))
		w.untilPublished()
		second.wantStopped()
		if n := begun.Load() - before; n != 0 {
			t.Errorf("%d windows after the walk, want none", n)
		}
		for i := range 20 {
			key := spread(20)(i)
			if got := w.kafka.of(key); !slices.IsSorted(got) || len(got) != 100 {
				t.Errorf("key %v: %d records, sorted %v", key, len(got), slices.IsSorted(got))
			}
		}
	})
}

func TestOutageSpendsNoAttemptOfWhatIsTriedWithCare(t *testing.T) {
	inWorld(t, func(w *world) {
		deadly := w.table.insert(keyA)
		<-w.mortal(Config{Name: "first"}, deadly).start().ended
		events := w.table.insertMany(400, spread(4))
		answer := newHeld()
		second := w.relay(Config{Name: "second"})
		second.publisher.hold = func(e *Event) <-chan struct{} {
			if e.Key() == spread(4)(0) {
				return answer.let
			}
			return nil
		}
		second.start()
		w.until("the other keys published", func() bool { return w.table.open() == 100 })
		after(time.Minute)
		for _, e := range events {
			if r, has := w.table.record(e.Ref()); has {
				t.Fatalf("event %d has a record after a minute of outage: %+v", e.ID, r)
			}
		}
		answer.letGo()
		w.untilPublished()
		second.wantStopped()
		for i := range 4 {
			if got := w.kafka.of(spread(4)(i)); len(got) != 100 || !slices.IsSorted(got) {
				t.Errorf("key %d: %d records, sorted %v", i, len(got), slices.IsSorted(got))
			}
		}
	})
}

func TestFailureUnderCareIsOneAttempt(t *testing.T) {
	inWorld(t, func(w *world) {
		deadly := w.table.insert(keyB)
		<-w.mortal(Config{Name: "first"}, deadly).start().ended
		events := w.table.insertMany(120, func(int) Key { return keyA })
		bad := events[10]
		second := w.relay(Config{Name: "second"})
		second.publisher.fail = rejects(bad)
		second.start()
		w.until("parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		w.until("the others have no record", func() bool { w.table.mu.Lock(); defer w.table.mu.Unlock(); return len(w.table.failing) == 1 })
		second.wantStopped()
		if r, _ := w.table.record(bad.Ref()); r.Attempts != 1 || r.Crashes != 0 {
			t.Errorf("record: %+v, want one attempt", r.Failing)
		}
		if got := w.kafka.of(keyA); len(got) != 10 {
			t.Errorf("%d records of the key, want those before the bad event", len(got))
		}
	})
}

func TestStopGivesBackWhatWaitsForCare(t *testing.T) {
	inWorld(t, func(w *world) {
		deadly := w.table.insert(keyA)
		<-w.mortal(Config{Name: "first"}, deadly).start().ended
		w.table.insertMany(2000, spread(2000))
		second := w.relay(Config{Name: "second"})
		second.publisher.latency = func(*Event) time.Duration { return 100 * time.Millisecond }
		second.start()
		w.until("some published", func() bool { return w.kafka.size() > 100 })
		began := time.Now()
		second.wantStopped()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop took %s", took)
		}
		if len(w.table.failing) != 0 {
			t.Errorf("%d records left by a clean stop, want none", len(w.table.failing))
		}
		third := w.relay(Config{Name: "third"}).start()
		w.untilPublished()
		third.wantStopped()
		if w.kafka.size() != 2001 {
			t.Errorf("%d records, want 2001: nothing was in doubt", w.kafka.size())
		}
	})
}

func TestDatabaseErrorsUnderCareLoseNothing(t *testing.T) {
	for _, op := range []string{"begin", "clear"} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+op, func(t *testing.T) {
				inWorld(t, func(w *world) {
					deadly := w.table.insert(keyA)
					<-w.mortal(Config{Name: "first"}, deadly).start().ended
					w.table.insertMany(500, spread(5))
					second := w.relay(Config{Name: "second"})
					if when == "before" {
						second.source.before.set(failing(op, 3))
					} else {
						second.source.after.set(failing(op, 3))
					}
					second.start()
					w.untilPublished()
					second.wantStopped()
					for i := range 5 {
						if got := w.kafka.of(spread(5)(i)); len(got) != 100 || !slices.IsSorted(got) {
							t.Errorf("key %d: %d records, sorted %v", i, len(got), slices.IsSorted(got))
						}
					}
				})
			})
		}
	}
}

func TestKeyUnderCareHasOneWindowAtATimeAndASuspectGoesAlone(t *testing.T) {
	t.Parallel()
	c := newCareful(1, 1000)
	c.add([]int32{0})
	first, suspect, last := fromTo(1, 60, keyA), fromTo(61, 61, keyB), fromTo(62, 63, keyC)
	c.suspect(Failing{Key: keyB, Event: suspect[0].Ref(), Crashes: 2})
	if others := c.take(slices.Concat(first, suspect, last)); len(others) != 0 {
		t.Fatalf("%d events are let through without care", len(others))
	}
	want := func(step string, try, behind int) {
		t.Helper()
		if w := c.next(); len(w.try) != try || len(w.behind) != behind {
			t.Errorf("%s: %d events to try, %d behind a failure; want %d, %d", step, len(w.try), len(w.behind), try, behind)
		}
	}
	want("first window", 50, 0)
	want("the key has no outcome yet: the suspect", 1, 0)
	want("the others", 2, 0)
	for _, e := range first[:49] {
		c.answered(e, nil)
	}
	want("one outcome is missing", 0, 0)
	c.answered(first[49], failure(ClassEvent))
	want("behind the failure", 0, 10)
}
