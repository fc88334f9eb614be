package relay

import (
	"fmt"
	"testing"
	"time"
)

func TestOnceEndsWhenEverythingCommittedAtItsBeginIsPublished(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insertMany(5000, spread(7))
		w.table.reserve(keyA)
		r := w.relay(Config{Once: true})
		r.publisher.latency = func(*Event) time.Duration { return 10 * time.Millisecond }
		if err := <-r.start().ran; err != nil {
			t.Errorf("run: %v", err)
		}
		if w.table.open() != 0 || w.kafka.size() != 5000 {
			t.Errorf("%d unpublished, %d records; want 0, 5000", w.table.open(), w.kafka.size())
		}
		if _, leased := w.table.leased(); leased {
			t.Error("the lease was not handed back")
		}
	})
}

func TestOnceEndsWithHeldTopicsAndParkedKeysReported(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.firstPublished = time.Time{}
		bad := w.table.insert(keyA)
		w.table.insertMany(30, func(i int) Key { return []Key{keyA, keyB, keyC}[i%3] })
		w.kafka.setMissing("payments", true)
		r := w.relay(Config{Once: true})
		r.publisher.fail = func(e *Event) error {
			if e == bad {
				return failure(ClassEvent)
			}
			return nil
		}
		if err := <-r.start().ran; err != nil {
			t.Errorf("run: %v", err)
		}
		s := r.Stats()
		if s.ParkedKeys != 1 || s.HeldTopics["payments"] == nil || len(w.kafka.of(keyB)) != 10 {
			t.Errorf("stats %+v, %d records of the good key; want 1 parked, payments held, 10", s, len(w.kafka.of(keyB)))
		}
		if len(w.table.parkedKeys()) != 1 {
			t.Errorf("parked in the table: %v, want the bad key", w.table.parkedKeys())
		}
	})
}

func TestOnceWritesDownWhatItParkedWhileARequestHung(t *testing.T) {
	for i := range 10 { // the end of the run and the parking are ready at the same time: either may be taken first
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.table.insert(keyA)
				r := w.relay(Config{Once: true, LookInterval: time.Millisecond})
				r.source.before.set(hangIn("requests"))
				r.publisher.latency = func(*Event) time.Duration { return time.Second }
				r.publisher.fail = func(*Event) error { return failure(ClassEvent) }
				if err := <-r.start().ran; err != nil {
					t.Errorf("run: %v", err)
				}
				if len(w.table.parkedKeys()) != 1 {
					t.Errorf("parked in the table: %v, want the bad key", w.table.parkedKeys())
				}
			})
		})
	}
}

func TestOnceReadsAgainWhatWasHeldOnTheWay(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insertMany(40, spread(4))
		r := w.relay(Config{Once: true})
		failures := 20
		r.publisher.fail = func(*Event) error {
			if failures > 0 {
				failures--
				return failure(ClassHeld)
			}
			return nil
		}
		if err := <-r.start().ran; err != nil {
			t.Errorf("run: %v", err)
		}
		if w.table.open() != 0 {
			t.Errorf("%d unpublished, want 0", w.table.open())
		}
	})
}

func TestOnceGivesUpWhenTheBrokersAreSilent(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insert(keyA)
		r := w.relay(Config{Once: true})
		r.publisher.hold = newHeld().all
		began := time.Now()
		if err := <-r.start().ran; err == nil {
			t.Error("run: nil, want that nothing was acknowledged")
		}
		if took := time.Since(began); took < 30*time.Second || took > 50*time.Second {
			t.Errorf("gave up after %s, want twice the StallTimeout and a drain", took)
		}
	})
}

func TestOnceGoesOnAfterADatabaseError(t *testing.T) {
	for _, op := range []string{"read", "settle", "park", "leave"} {
		t.Run(op, func(t *testing.T) {
			inWorld(t, func(w *world) {
				bad := w.table.insert(keyA)
				w.table.insertMany(100, spread(7))
				r := w.relay(Config{Once: true})
				r.publisher.fail = func(e *Event) error {
					if e == bad {
						return failure(ClassEvent)
					}
					return nil
				}
				r.source.before.set(failing(op, 1))
				if err := <-r.start().ran; err != nil {
					t.Errorf("run: %v", err)
				}
				if w.table.open() != 1 || len(w.table.parkedKeys()) != 1 {
					t.Errorf("%d unpublished, parked %v; want the bad event", w.table.open(), w.table.parkedKeys())
				}
			})
		})
	}
}

func TestOnceSaysLoudlyThatItWaitsForTheLease(t *testing.T) {
	for level, once := range map[string]bool{"WARN": true, "INFO": false} {
		t.Run(level, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.table.steal(time.Now().Add(time.Minute))
				r := w.relay(Config{Once: once}).start()
				w.until("waiting", func() bool { return r.Stats().Waiting == "thief" })
				if r.log.count(`level=`+level+` msg="waiting for lanes"`) != 1 {
					t.Errorf("log:\n%s", r.log.text.String())
				}
			})
		})
	}
}
