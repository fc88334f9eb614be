package relay

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

func TestStalledPublisherBoundsWhatIsRead(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		w.table.insertMany(1000, spread(10))
		r := w.relay(Config{MaxInFlight: 100, StallTimeout: time.Minute})
		r.publisher.hold = answer.all
		r.start()
		w.until("the budget used up", func() bool { return r.Stats().InFlight == 100 })
		if r.source.read.Load() != 100 {
			t.Errorf("%d events read, want 100", r.source.read.Load())
		}
		for range 600 {
			after(time.Second)
			if n := r.Stats().InFlight; n > 100 {
				t.Fatalf("%d events in flight, want at most 100", n)
			}
		}
		if r.source.read.Load() > 700 {
			t.Errorf("%d events read in ten minutes of silence, want few", r.source.read.Load())
		}
		answer.letGo()
		w.untilPublished()
		r.wantStopped()
	})
}

func TestEventsLargerThanTheMemoryBudgetStillGoOut(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{MaxInFlightBytes: 1000}).start()
		for _, e := range w.table.insertMany(10, spread(2)) {
			e.Payload = make([]byte, 5000)
		}
		w.untilPublished()
		r.wantStopped()
	})
}

func TestSeveralStuckKeysDoNotStopTheOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		w.table.insertMany(5, spread(5))
		r := w.relay(Config{MaxInFlight: 100})
		r.publisher.hold = func(e *Event) <-chan struct{} {
			if e.Topic == "orders" {
				return answer.let
			}
			return nil
		}
		r.start()
		w.until("stuck", func() bool { return r.Stats().Outstanding == 5 })
		w.table.insertMany(500, spread(5))
		w.table.insertMany(500, func(i int) Key { return Key{"payments", fmt.Sprint(i % 50)} })
		began := time.Now()
		w.until("the others published", func() bool { return w.kafka.size() == 500 })
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("the others took %s", took)
		}
		answer.letGo()
		w.untilPublished()
		r.wantStopped()
	})
}

func TestSmallBatchSizeIsKept(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		w.table.insertMany(100, spread(100))
		r := w.relay(Config{BatchSize: 7, MaxInFlight: 10})
		r.publisher.hold = answer.all
		r.start()
		w.until("the first read", func() bool { return r.source.read.Load() > 0 })
		if r.source.read.Load() > 10 {
			t.Errorf("%d events read, want at most 10", r.source.read.Load())
		}
		answer.letGo()
		w.untilPublished()
		r.wantStopped()
	})
}

func TestStuckKeyWithManyWaitingEventsDoesNotStopTheOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		w.table.insert(keyA)
		r := w.relay(Config{MaxInFlight: 100})
		r.publisher.hold = answer.of(keyA)
		r.publisher.latency = func(*Event) time.Duration { return 100 * time.Millisecond }
		r.start()
		w.until("stuck", func() bool { return r.Stats().Outstanding == 1 })
		w.table.insertMany(99, func(int) Key { return keyA })
		w.table.insertMany(2000, spread(200))
		began := time.Now()
		w.until("the others published", func() bool { return w.kafka.size() == 2000 })
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the others took %s", took)
		}
		w.table.insert(keyA)
		answer.letGo()
		w.untilPublished()
		r.wantStopped()
		if got := w.kafka.of(keyA); len(got) != 101 || got[0] != 1 || got[99] != 100 {
			t.Errorf("records of the stuck key: %v", got)
		}
	})
}

func TestSweepPublishesAForgottenEventAndCountsIt(t *testing.T) {
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("while writers write %v", busy), func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := w.relay(Config{}).start()
				w.until("leading", func() bool { return r.Stats().Lanes > 0 })
				row := w.table.reserve(keyA)
				row.forgotten = true
				w.table.commit(row)
				if busy {
					r.source.before.set(func(_ context.Context, op string) error {
						if op == "read" { // so that each read finds something
							w.table.insert(keyB)
							<-time.After(5 * time.Millisecond)
						}
						return nil
					})
				}
				after(40 * time.Second)
				r.source.before.set(nil)
				if !w.table.settled(row.event.Ref()) || r.Stats().SweepFinds != 1 {
					t.Errorf("settled %v, finds %d; want true, 1", w.table.settled(row.event.Ref()), r.Stats().SweepFinds)
				}
				w.untilPublished()
				r.wantStopped()
			})
		})
	}
}

func TestSweepFindsNothingInOrdinaryWork(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		answer := newHeld()
		r := w.relay(Config{SweepInterval: 100 * time.Millisecond})
		r.publisher.hold = answer.of(keyB)
		r.publisher.fail = func(e *Event) error {
			if e == bad {
				return failure(ClassEvent)
			}
			return nil
		}
		w.kafka.setMissing("payments", true)
		r.start()
		open := w.table.reserve(Key{"orders", "open"})
		for i := range 200 {
			w.table.insertMany(4, func(j int) Key { return []Key{keyA, keyB, keyC, {"orders", fmt.Sprint(i)}}[j] })
			after(10 * time.Millisecond)
		}
		w.table.commit(open)
		w.until("the hole published", func() bool { return w.table.settled(open.event.Ref()) })
		if n := r.Stats().SweepFinds; n != 0 {
			t.Errorf("the sweep found %d events, want none", n)
		}
		answer.letGo()
		r.wantStopped()
	})
}

func TestIdleRelayReadsOncePerPollInterval(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{PollInterval: 5 * time.Second})
		var reads atomic.Int64
		r.source.before.set(countCalls("read", &reads))
		r.start()
		after(time.Minute)
		reads.Store(0)
		after(time.Minute)
		if n := reads.Load(); n < 11 || n > 13 {
			t.Errorf("%d reads in an idle minute, want 12", n)
		}
		w.table.insert(keyA)
		w.untilPublished()
		r.wantStopped()
	})
}

func TestBacklogThatCannotMoveDoesNotMakeReadingFaster(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.table.insert(keyA)
		w.table.parked[keyA] = ParkedKey{Key: keyA, Event: first.Ref()}
		w.table.insertMany(5000, func(int) Key { return keyA })
		w.kafka.setMissing("payments", true)
		w.table.insertMany(100, func(int) Key { return keyC })
		r := w.relay(Config{SweepInterval: time.Second})
		var reads atomic.Int64
		r.source.before.set(countCalls("read", &reads))
		r.start()
		after(time.Minute)
		reads.Store(0)
		r.source.read.Store(0)
		after(time.Minute)
		if reads.Load() > 610 || r.source.read.Load() > 0 {
			t.Errorf("%d reads of %d events in a minute, want at most 600 of none", reads.Load(), r.source.read.Load())
		}
		w.table.insert(keyB)
		began := time.Now()
		w.until("a new event of another key published", func() bool { return len(w.kafka.of(keyB)) == 1 })
		if took := time.Since(began); took > 120*time.Millisecond {
			t.Errorf("published after %s, want within the poll interval", took)
		}
		r.wantStopped()
	})
}

func TestEventsThatComeBackUnsentAreNotSentInATightLoop(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insert(keyA)
		r := w.relay(Config{})
		r.publisher.fail = func(*Event) error { return failure(ClassHeld) }
		r.start()
		after(10 * time.Second)
		if _, _, handed := r.publisher.counts(); handed > 210 || handed < 10 {
			t.Errorf("sent %d times in ten seconds, want about 200", handed)
		}
		r.wantStopped()
	})
}

func TestSilentBrokersAreReported(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		w.table.insert(keyA)
		r := w.relay(Config{})
		r.publisher.hold = answer.all
		r.start()
		after(14 * time.Second)
		if r.Stats().Stalled {
			t.Error("stalled before StallTimeout")
		}
		after(2 * time.Second)
		if !r.Stats().Stalled || r.log.count("Kafka acknowledges nothing") != 1 {
			t.Errorf("stalled %v, logged %d times; want true, once", r.Stats().Stalled, r.log.count("Kafka acknowledges nothing"))
		}
		answer.letGo()
		after(time.Second)
		if r.Stats().Stalled || r.log.count("acknowledges again") != 1 {
			t.Errorf("still stalled after the answer")
		}
		after(time.Hour)
		if r.Stats().Stalled {
			t.Error("stalled although nothing is outstanding")
		}
		r.wantStopped()
	})
}

func TestFrozenReaderShowsInItsLastTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{}).start()
		after(time.Minute)
		if age := time.Since(r.Stats().LastTurn); age > time.Second {
			t.Errorf("the last turn was %s ago, want under a second", age)
		}
		frozen := time.Now()
		r.source.before.set(hangIn("read"))
		after(8 * time.Second)
		if turn := r.Stats().LastTurn; turn.After(frozen.Add(time.Second)) {
			t.Error("the loop turned although its read hangs")
		}
		r.source.before.set(nil)
		r.wantStopped()
	})
}
