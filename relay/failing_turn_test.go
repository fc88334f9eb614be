package relay

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// slowly makes every call of the operation take a while.
func slowly(op string, took time.Duration) func(context.Context, string) error {
	return func(_ context.Context, called string) error {
		if called == op {
			after(took)
		}
		return nil
	}
}

// One wrong limit may stop a hundred thousand keys. The operator who has mended it does not wait until the last one is written down.
func TestRequestsAreCarriedOutWhileThousandsOfKeysWaitToBeParked(t *testing.T) {
	inWorld(t, func(w *world) {
		const keys = 20_000
		w.table.insertMany(keys, func(i int) Key { return Key{"orders", fmt.Sprint("key", i)} })
		r := w.relay(Config{})
		r.publisher.fail = func(*Event) error { return failure(ClassEvent) }
		r.source.before.set(slowly("park", 2*time.Second))
		r.start()
		w.until("the first keys are parked", func() bool { return len(w.table.parkedKeys()) > 0 })
		w.table.request("discard", w.table.parkedKeys()[0])
		w.until("the request is carried out", func() bool { return w.table.requestsOpen() == 0 })
		if parked := len(w.table.parkedKeys()); parked > keys-parkAtOnce {
			t.Errorf("the request was carried out when %d of %d keys were parked", parked, keys)
		}
		w.until("all others are parked", func() bool { return len(w.table.parkedKeys()) == keys-1 })
		r.wantStopped()
	})
}

// Events that are given up hold up nobody either.
func TestRequestsAreCarriedOutWhileThousandsOfEventsWaitToBeGivenUp(t *testing.T) {
	inWorld(t, func(w *world) {
		const events = 20_000
		parked := w.table.insert(keyB)
		r := w.relay(Config{Policies: []Policy{{Topics: keyB.Topic}, {OnFailure: Skip}}})
		r.publisher.fail = func(*Event) error { return failure(ClassEvent) }
		r.start()
		w.until("a key is parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		r.source.before.set(slowly("bury", 2*time.Second))
		w.table.insertMany(events, func(i int) Key { return Key{"skipped", fmt.Sprint("key", i)} })
		w.until("some are given up", func() bool { return len(w.table.deadEvents()) > 0 })
		w.table.request("discard", parked.Key())
		w.until("the request is carried out", func() bool { return w.table.requestsOpen() == 0 })
		if dead := len(w.table.deadEvents()); dead > events/2 {
			t.Errorf("the request was carried out when %d of %d events were given up", dead, events)
		}
		w.untilPublished()
		r.wantStopped()
	})
}

func TestKeysAreParkedManyAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		const keys = 5_000
		w.table.insertMany(keys, func(i int) Key { return Key{"orders", fmt.Sprint("key", i)} })
		var calls atomic.Int64
		r := w.relay(Config{})
		r.publisher.fail = func(*Event) error { return failure(ClassEvent) }
		r.source.before.set(slowly("park", time.Second))
		r.source.after.set(countCalls("park", &calls))
		r.start()
		w.until("all are parked", func() bool { return len(w.table.parkedKeys()) == keys })
		r.wantStopped()
		if n := calls.Load(); n > 20 {
			t.Errorf("%d keys were parked by %d calls", keys, n)
		}
	})
}

// wantFewCalls counts the calls of an operation while thousands of keys fail.
func wantFewCalls(t *testing.T, op string, most int64, policies []Policy, done func(w *world, r *running, keys int) bool) {
	inWorld(t, func(w *world) {
		const keys = 5_000
		w.table.insertMany(keys, func(i int) Key { return Key{"orders", fmt.Sprint("key", i)} })
		var calls atomic.Int64
		r := w.relay(Config{Policies: policies})
		r.publisher.fail = func(*Event) error { return failure(ClassEvent) }
		r.source.before.set(slowly(op, time.Second))
		r.source.after.set(countCalls(op, &calls))
		r.start()
		w.until("all are written down", func() bool { return done(w, r, keys) })
		r.wantStopped()
		if n := calls.Load(); n > most {
			t.Errorf("%d events took %d calls, want %d at most", keys, n, most)
		}
	})
}

func TestEventsAreGivenUpManyAtOnce(t *testing.T) {
	for name, policies := range map[string][]Policy{"skipped": {{OnFailure: Skip}}, "sent": deadLetter("dead")} {
		t.Run(name, func(t *testing.T) {
			wantFewCalls(t, "bury", 30, policies, func(w *world, r *running, keys int) bool {
				return len(w.table.deadEvents()) == keys && r.Stats().Dead == int64(keys)
			})
		})
	}
}

func TestFailedAttemptsAreWrittenDownManyAtOnce(t *testing.T) {
	policies := []Policy{{MaxAttempts: 2, MinBackoff: time.Hour, MaxBackoff: time.Hour}}
	wantFewCalls(t, "retry", 10, policies, func(_ *world, r *running, keys int) bool { return r.Stats().DelayedKeys == keys })
}

// Those whose rows are free do not wait for the others, nor does anything that fails later.
func TestEventsWhoseRowsAreLockedHoldUpNoOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		const keys = 1_000
		var locked []Ref
		for i, e := range w.table.insertMany(keys, func(i int) Key { return Key{"orders", fmt.Sprint("key", i)} }) {
			if i%10 == 0 {
				locked = append(locked, e.Ref())
			}
		}
		w.table.lockRows(true, locked...)
		r := w.relay(Config{Policies: []Policy{{OnFailure: Skip}}})
		r.publisher.fail = func(*Event) error { return failure(ClassEvent) }
		r.start()
		w.until("the free ones are moved", func() bool { return len(w.table.deadEvents()) == keys-len(locked) })
		after(time.Minute)
		w.table.insert(keyB)
		w.until("a later one is moved", func() bool { return len(w.table.deadEvents()) == keys-len(locked)+1 })
		w.table.lockRows(true, locked[1:]...)
		w.until("the one that is free now is moved", func() bool { return len(w.table.deadEvents()) == keys-len(locked)+2 })
		w.table.lockRows(false)
		w.until("all are moved", func() bool { return len(w.table.deadEvents()) == keys+1 })
		r.wantStopped()
		if n := r.Stats().Dead; n != keys+1 {
			t.Errorf("%d dead events are counted, want %d", n, keys+1)
		}
	})
}

// A stop in the middle moves the rest: their letters are sent already.
func TestAStopMovesAllThatIsGivenUp(t *testing.T) {
	inWorld(t, func(w *world) {
		const keys = 2_500
		w.table.insertMany(keys, func(i int) Key { return Key{"orders", fmt.Sprint("key", i)} })
		r := w.relay(Config{Policies: deadLetter("dead")})
		r.publisher.fail = func(*Event) error { return failure(ClassEvent) }
		r.source.before.set(slowly("bury", 500*time.Millisecond))
		r.start()
		w.until("all have failed", func() bool { return r.Stats().Errors[ClassEvent] == keys })
		if n := len(w.table.deadEvents()); n == keys {
			t.Fatal("all events are moved already")
		}
		r.wantStopped()
		if n := len(w.table.deadEvents()); n != keys {
			t.Errorf("%d of %d events are moved", n, keys)
		}
	})
}

// An event that somebody else has settled or removed meanwhile is not counted among the dead, and its key goes on.
func TestEventThatIsGoneBeforeItIsMovedIsNotDead(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		w.table.insert(keyA)
		r := w.relay(Config{Policies: []Policy{{OnFailure: Skip}}})
		r.publisher.fail = rejects(bad)
		r.source.before.set(func(_ context.Context, op string) error {
			if op == "bury" {
				w.table.mu.Lock()
				w.table.row(bad.Ref()).published = true
				w.table.mu.Unlock()
			}
			return nil
		})
		r.start()
		w.untilPublished()
		r.wantStopped()
		w.wantRecords(keyA, bad.ID+1)
		if n := r.Stats().Dead; n != 0 || r.log.count("event given up") != 0 {
			t.Errorf("%d dead events, %d lines", n, r.log.count("event given up"))
		}
	})
}

// An operator may give an event up before it is written down that it stops its key.
func TestKeyWhoseEventIsGoneBeforeItIsParkedGoesOn(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.table.insert(keyA)
		bad := w.table.insert(keyB)
		w.table.insert(keyB)
		r := w.relay(Config{})
		r.publisher.fail = rejects(bad)
		given := false
		r.source.before.set(func(_ context.Context, op string) error {
			if op == "park" && !given {
				given = true
				w.table.mu.Lock()
				w.table.row(bad.Ref()).published = true
				w.table.mu.Unlock()
			}
			return nil
		})
		r.start()
		w.untilPublished()
		w.wantRecords(keyA, first.ID)
		w.wantRecords(keyB, bad.ID+1)
		r.wantStopped()
		if n := r.Stats().ParkedKeys; n != 0 || len(w.table.parkedKeys()) != 0 {
			t.Errorf("%d keys are held, %v parked", n, w.table.parkedKeys())
		}
	})
}

// A stop in the middle writes the rest down: the next relay need not fail it all again.
func TestAStopParksAllThatHasFailed(t *testing.T) {
	inWorld(t, func(w *world) {
		const keys = 2_500
		w.table.insertMany(keys, func(i int) Key { return Key{"orders", fmt.Sprint("key", i)} })
		r := w.relay(Config{})
		r.publisher.fail = func(*Event) error { return failure(ClassEvent) }
		r.source.before.set(slowly("park", time.Second))
		r.start()
		w.until("all have failed", func() bool { return r.Stats().Errors[ClassEvent] == keys })
		if n := len(w.table.parkedKeys()); n == keys {
			t.Fatal("all keys are parked already")
		}
		r.wantStopped()
		if n := len(w.table.parkedKeys()); n != keys {
			t.Errorf("%d of %d keys are parked", n, keys)
		}
	})
}

// The row is locked at first, and when it is free the database refuses: the key is parked then, without another failure to wait for.
func TestEventThatIsRefusedWhenItsRowIsFreeParksItsKey(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		w.table.insert(keyB)
		w.table.lockRows(true)
		w.table.keeps = true
		r := w.relay(Config{Policies: []Policy{{OnFailure: Skip}}})
		r.publisher.fail = rejects(bad)
		r.start()
		w.until("the other key published", func() bool { return w.table.open() == 1 })
		after(time.Minute)
		w.table.lockRows(false)
		w.until("the key is parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		r.wantStopped()
	})
}
