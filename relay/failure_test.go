package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

func TestDatabaseErrorEndsTheTermAndTheNextGoesOnWithoutLossOrDuplicate(t *testing.T) {
	for _, op := range []string{"open", "claim", "renew", "parked", "start", "read", "settle", "requests"} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+op, func(t *testing.T) {
				inWorld(t, func(w *world) {
					r := w.relay(Config{})
					r.publisher.latency = func(*Event) time.Duration { return 20 * time.Millisecond }
					if when == "before" {
						r.source.before.set(failing(op, 3))
					} else {
						r.source.after.set(failing(op, 3))
					}
					w.table.insertMany(100, spread(5))
					r.start()
					began := time.Now()
					for range 300 {
						after(100 * time.Millisecond)
						w.table.insert(keyA)
					}
					w.untilPublished()
					if took := time.Since(began); took > 35*time.Second {
						t.Errorf("published after %s, want soon after the errors", took)
					}
					r.wantStopped()
					if w.kafka.size() != 400 {
						t.Errorf("%d records, want 400: nothing was in doubt", w.kafka.size())
					}
					if n := r.Stats().ForeignSettles; n != 0 {
						t.Errorf("%d foreign settles, want 0", n)
					}
				})
			})
		}
	}
}

func TestAnswersThatComeAfterAFailureAreHeardAndSettled(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		w.table.insert(keyA)
		r := w.relay(Config{})
		r.publisher.hold = answer.all
		var fail atomic.Bool
		r.source.before.set(func(_ context.Context, op string) error {
			if op == "requests" && fail.CompareAndSwap(true, false) {
				return errBroken
			}
			return nil
		})
		r.start()
		w.until("outstanding", func() bool { return r.Stats().Outstanding == 1 })
		fail.Store(true)
		began := time.Now()
		time.AfterFunc(3*time.Second, answer.letGo)
		w.untilPublished()
		if took := time.Since(began); took > 3100*time.Millisecond {
			t.Errorf("settled after %s, want with the answer", took)
		}
		r.wantStopped()
		w.wantRecords(keyA, 1)
	})
}

func TestUnsettledEventsSurviveTheTerm(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insertMany(20, spread(4))
		r := w.relay(Config{})
		r.source.before.set(failing("settle", 5))
		r.start()
		w.untilPublished()
		r.wantStopped()
		if w.kafka.size() != 20 {
			t.Errorf("%d records, want 20", w.kafka.size())
		}
	})
}

func TestDestroyedClientIsMadeAnewWhenWhatItHadCannotLandAnyMore(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		w.table.insertMany(3, spread(1))
		r := w.relay(Config{})
		r.publisher.hold = answer.all
		r.publisher.onDestroy = func(*Event) time.Duration { return testDelay - time.Millisecond }
		r.start()
		w.until("outstanding", func() bool { return r.Stats().Outstanding == 3 })
		began := time.Now()
		r.publisher.letGo()
		r.publisher.Destroy()
		w.untilPublished()
		if took := time.Since(began); took < testDelay || took > testDelay+time.Second {
			t.Errorf("published again after %s, want after %s", took, testDelay)
		}
		r.wantStopped()
		w.wantRecords(Key{"orders", "0"}, 1, 2, 3, 1, 2, 3)
		if opened, _, _ := r.publisher.counts(); opened != 2 {
			t.Errorf("%d clients, want 2", opened)
		}
	})
}

func TestUnclassifiedErrorEndsTheTermAndTheEventIsSentAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		first := true
		r := w.relay(Config{})
		r.publisher.fail = func(*Event) error {
			if first {
				first = false
				return errors.New("what is this")
			}
			return nil
		}
		w.table.insert(keyA)
		r.start()
		w.untilPublished()
		r.wantStopped()
		w.wantRecords(keyA, 1)
		if n := r.Stats().Errors[ClassUnknown]; n != 1 {
			t.Errorf("%d unknown outcomes counted, want 1", n)
		}
	})
}

func TestLostLeaseSilencesTheRelayAndTheNextOneGoesOn(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		w.table.insertMany(4, spread(2))
		first := w.relay(Config{Name: "first"})
		first.publisher.hold = answer.of(Key{"orders", "0"})
		first.start()
		w.until("one key published", func() bool { return w.table.open() == 2 })
		second := w.relay(Config{Name: "second"}).start()
		first.source.before.set(func(ctx context.Context, op string) error { <-ctx.Done(); return ctx.Err() })
		w.until("silenced", func() bool { _, destroyed, _ := first.publisher.counts(); return destroyed == 1 })
		if second.Stats().Lanes > 0 {
			t.Error("two relays lead")
		}
		w.untilPublished()
		second.wantStopped()
		w.wantRecords(Key{"orders", "0"}, 1, 3)
	})
}

func TestChangedServerSilencesTheRelayAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		w.table.insert(keyA)
		r := w.relay(Config{})
		r.publisher.hold = answer.all
		var changed atomic.Bool
		r.source.before.set(func(_ context.Context, op string) error {
			if op == "read" && changed.CompareAndSwap(true, false) {
				return ErrServerChanged
			}
			return nil
		})
		r.start()
		w.until("outstanding", func() bool { return r.Stats().Outstanding == 1 })
		changed.Store(true)
		began := time.Now()
		w.until("silenced", func() bool { _, destroyed, _ := r.publisher.counts(); return destroyed == 1 })
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("silenced after %s, want at once", took)
		}
		answer.letGo()
		w.untilPublished()
		r.wantStopped()
	})
}

func TestClientThatOpensAfterTheSilenceIsDestroyed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insert(keyA)
		r := w.relay(Config{StartTimeout: -1})
		r.source.before.set(func(ctx context.Context, op string) error {
			if op == "renew" {
				<-time.After(time.Minute)
			}
			return nil
		})
		// The first opening is the proof before the claim; the second one is under the lease.
		opened := 0
		r.publisher.onOpen = func(context.Context) error {
			if opened++; opened == 2 {
				<-time.After(testTTL)
			}
			return nil
		}
		r.start()
		after(testTTL)
		// One at the silence, and the one that was open only afterwards.
		if _, destroyed, handed := r.publisher.counts(); destroyed != 2 || handed != 0 {
			t.Errorf("%d clients destroyed, %d events handed over; want 2, 0", destroyed, handed)
		}
		r.source.before.set(nil)
		w.untilPublished()
		r.wantStopped()
	})
}

func TestPoisonStopsItsKeyOnly(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		r := w.relay(Config{})
		r.publisher.fail = func(e *Event) error {
			if e == bad {
				return failure(ClassEvent)
			}
			return nil
		}
		r.start()
		for range 20 {
			w.table.insert(keyA)
			w.table.insert(keyB)
		}
		w.until("the other key published", func() bool { return len(w.kafka.of(keyB)) == 20 })
		after(time.Hour)
		w.wantRecords(keyA)
		if keys := w.table.parkedKeys(); !slices.Equal(keys, []Key{keyA}) || r.Stats().ParkedKeys != 1 {
			t.Errorf("parked %v, stats %d; want %v, 1", keys, r.Stats().ParkedKeys, keyA)
		}
		if n := r.Stats().Errors[ClassEvent]; n != 1 {
			t.Errorf("the bad event was tried %d times, want once", n)
		}
		if p := w.table.parked[keyA]; p.Event != bad.Ref() || p.Code != "TEST" || p.EventType != bad.Type {
			t.Errorf("parked %+v, want event 1 with its code", p)
		}
		w.table.insert(keyA)
		w.table.request("discard", keyA)
		w.untilPublished()
		r.wantStopped()
		if got := w.kafka.of(keyA); len(got) != 21 || !slices.IsSorted(got) || got[0] != 2 {
			t.Errorf("records of the key that goes on: %v, want 21 in order without event 1", got)
		}
	})
}

func TestParkedKeyStaysParkedForTheNextRelay(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.table.insert(keyA)
		w.table.parked[keyA] = ParkedKey{Key: keyA, Event: e.Ref()}
		r := w.relay(Config{}).start()
		w.table.insert(keyB)
		w.until("the other key published", func() bool { return w.table.open() == 1 })
		w.table.request("retry", keyA)
		w.untilPublished()
		r.wantStopped()
		w.wantRecords(keyA, 1)
	})
}

func TestThousandsOfPoisonousKeysAreParkedWhileTheRequestsHang(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insertMany(3000, func(i int) Key { return Key{"orders", fmt.Sprint("bad", i)} })
		w.table.insert(keyC)
		r := w.relay(Config{})
		r.publisher.fail = func(e *Event) error {
			if e.Topic == "orders" {
				return failure(ClassEvent)
			}
			return nil
		}
		goOn := make(chan struct{})
		r.source.before.set(func(ctx context.Context, op string) error {
			if op == "park" {
				<-goOn
			}
			return nil
		})
		r.start()
		w.until("the good event published", func() bool { return w.table.open() == 3000 })
		close(goOn)
		w.until("all parked", func() bool { return len(w.table.parkedKeys()) == 3000 })
		r.wantStopped()
	})
}

func TestKeysThatAreFreeGoOutEvenWithTheOutcomeThatEndsTheTerm(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{})
		tm := &term{Relay: r.Relay, careful: newCareful(1, 0), gate: testGate(), end: func(error) {}, arrived: newSignal(), toPark: newSignal()}
		sent := append(fromTo(1, 1, keyA), fromTo(2, 2, keyB)...)
		tm.gate.admit(sent)
		tm.gate.admit(fromTo(3, 3, keyB))
		tm.done(sent[0], failure(ClassUnknown))
		tm.done(sent[1], nil)
		tm.resolve()
		if _, _, handed := r.publisher.counts(); handed != 1 {
			t.Errorf("%d events handed over, want event 3: the gate counts it as outstanding", handed)
		}
	})
}

func TestRequestForAKeyInFlightWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		w.table.insert(keyA)
		r := w.relay(Config{})
		r.publisher.hold = answer.all
		r.start()
		w.until("outstanding", func() bool { return r.Stats().Outstanding == 1 })
		w.table.request("discard", keyA)
		after(time.Minute)
		if w.table.requestsOpen() != 1 {
			t.Error("the request was carried out while its key was in flight")
		}
		answer.letGo()
		w.until("carried out", func() bool { return w.table.requestsOpen() == 0 })
		w.table.insert(keyA)
		w.untilPublished()
		r.wantStopped()
		w.wantRecords(keyA, 1, 2)
	})
}
