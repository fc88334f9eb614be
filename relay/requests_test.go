package relay

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// busy writes events of the key, one after the other, until the test ends.
func (w *world) busy(key Key, every time.Duration) {
	ctx := w.t.Context()
	go func() {
		for tick := time.NewTicker(every); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.table.insert(key)
			}
		}
	}()
}

// Brokers may take longer to answer than a request waits, and a key may always have something on its way: then nothing more of it goes out until it is idle.
func TestRequestForAKeyThatIsNeverIdleIsCarriedOut(t *testing.T) {
	inWorld(t, func(w *world) {
		w.busy(keyA, 20*time.Millisecond)
		r := w.relay(Config{})
		// What is written meanwhile takes as long again.
		r.publisher.latency = func(e *Event) time.Duration {
			if e.ID%14 == 0 {
				return 300 * time.Millisecond
			}
			return 0
		}
		r.start()
		w.until("the key is busy", func() bool { return len(w.kafka.of(keyA)) > 100 })
		for range 5 {
			began := time.Now()
			w.table.request("retry", keyA)
			w.until("the request is carried out", func() bool { return w.table.requestsOpen() == 0 })
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("the request took %s", took)
			}
		}
		published := len(w.kafka.of(keyA))
		w.until("the key goes on", func() bool { return len(w.kafka.of(keyA)) > published+100 })
		r.wantStopped()
	})
}

// A round through many requests may take longer than a key is held that is busy. It must not be let go before the next round asks about it, or it is busy then, too.
func TestABusyKeyIsHeldUntilTheNextRound(t *testing.T) {
	inWorld(t, func(w *world) {
		w.busy(keyA, 20*time.Millisecond)
		r := w.relay(Config{})
		var quick atomic.Bool
		r.publisher.latency = func(*Event) time.Duration {
			if quick.Load() {
				return 0
			}
			return 300 * time.Millisecond
		}
		r.start()
		w.until("the key is busy", func() bool { return len(w.kafka.of(keyA)) > 10 })
		var calls atomic.Int64
		r.source.before.set(slowly("requests", holdFor/4))
		r.source.after.set(countCalls("requests", &calls))
		w.table.request("retry", keyA)
		const others = 30
		for i := range others {
			w.table.request("retry", Key{"idle", fmt.Sprint("key", i)})
		}
		w.until("the first round is over", func() bool { return w.table.requestsOpen() == 1 })
		first := calls.Load()
		w.until("the request is carried out", func() bool { return w.table.requestsOpen() == 0 })
		if n := calls.Load() - first; n > 2 {
			t.Errorf("the busy key was asked about %d more times", n)
		}
		quick.Store(true)
		r.wantStopped()
	})
}

// Records that do not come back hold their key up anyway. It goes on by itself when they do, whether its request is still there or was withdrawn.
func TestKeyThatDoesNotBecomeIdleGoesOn(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		w.table.insert(keyA)
		r := w.relay(Config{})
		r.publisher.hold = answer.of(keyA)
		r.start()
		w.until("the key is busy", func() bool { return r.Stats().Outstanding == 1 })
		w.table.request("retry", keyA)
		w.table.insert(keyA)
		after(2 * holdFor)
		w.table.withdraw()
		after(time.Second)
		answer.letGo()
		w.untilPublished()
		w.wantRecords(keyA, 1, 2)
		r.wantStopped()
	})
}

// A run that is to end when everything is published does not end while a key is held back for a moment.
func TestOnceWaitsForKeysThatAreHeldForRequests(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insertMany(20, func(int) Key { return keyA })
		w.table.request("retry", keyA)
		r := w.relay(Config{Once: true, BatchSize: 1})
		r.publisher.latency = func(e *Event) time.Duration {
			if e.ID == 1 {
				return 300 * time.Millisecond
			}
			return 0
		}
		if err := <-r.start().ran; err != nil {
			t.Errorf("run: %v", err)
		}
		if n := w.table.open(); n != 0 {
			t.Errorf("%d events are unpublished", n)
		}
	})
}

// What becomes of an event is decided beside what operators ask for. An event that was given up, mended and restored while its dead letter was on its way would be given up once
// more when that is acknowledged, and newer ones would go out before it.
func TestRequestsWaitForADeadLetterThatIsOnItsWay(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		w.table.insert(keyA)
		answer := newHeld()
		r := w.relay(Config{Policies: deadLetter("dead")})
		r.publisher.fail = rejects(bad)
		r.publisher.holdLetter = answer.let
		r.start()
		w.until("failed", func() bool { return r.Stats().Errors[ClassEvent] == 1 })
		after(time.Second)
		w.table.requestEvent("skip", bad)
		w.table.requestEvent("restore", bad)
		w.table.request("retry", keyB)
		w.until("what is about another key is carried out", func() bool { return w.table.requestsOpen() < 3 })
		after(2 * holdFor)
		if n := w.table.requestsOpen(); n != 2 {
			t.Errorf("%d requests of the key are open while its letter is on its way, want both", n)
		}
		answer.letGo()
		w.until("all is carried out", func() bool { return w.table.requestsOpen() == 0 })
		w.untilPublished()
		if dead := w.table.deadEvents(); len(dead) != 1 || dead[0].Event != bad.Ref() {
			t.Errorf("dead events: %v, want the bad one once", dead)
		}
		w.wantRecords(keyA, 2)
		r.wantStopped()
	})
}

// The same holds for an event that is given up and whose row somebody has locked.
func TestRequestsWaitForAnEventThatIsGivenUpAndLocked(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		w.table.insert(keyA)
		w.table.lockRows(true)
		r := w.relay(Config{Policies: []Policy{{OnFailure: Skip}}})
		r.publisher.fail = rejects(bad)
		r.start()
		after(time.Minute)
		w.table.requestEvent("skip", bad)
		after(time.Minute)
		if n := w.table.requestsOpen(); n != 1 {
			t.Errorf("%d requests of the key are open while its event cannot be moved, want one", n)
		}
		w.table.lockRows(false)
		w.until("it is carried out", func() bool { return w.table.requestsOpen() == 0 })
		w.untilPublished()
		if n := len(w.table.deadEvents()); n != 1 {
			t.Errorf("%d dead events, want one", n)
		}
		r.wantStopped()
	})
}
