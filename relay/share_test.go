package relay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

// shared is a world with a table of lanes that several relays share.
func shared(lanes int, w *world) *world {
	w.table.lanes = make([]fakeLane, lanes)
	return w
}

// wantShares waits until each relay has as many lanes as the numbers say.
func (w *world) wantShares(relays []*running, want ...int) {
	w.t.Helper()
	var got []int
	w.until(fmt.Sprint("shares ", want), func() bool {
		got = nil
		for _, r := range relays {
			got = append(got, w.table.has(r.owner))
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

func (w *world) named(n int) (relays []*running) {
	for i := range n {
		relays = append(relays, w.relay(Config{Name: fmt.Sprint("relay ", i)}))
	}
	return relays
}

func TestRelaysShareTheLanesFairly(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(8, w).named(3)
		relays[0].start()
		w.wantShares(relays[:1], 8)
		relays[1].start()
		w.wantShares(relays[:2], 4, 4)
		relays[2].start()
		w.wantShares(relays, 2, 3, 3)
		w.table.insertMany(300, spread(50))
		w.untilPublished()
		for i, r := range relays {
			if n := r.Stats(); n.Published == 0 || n.Lanes != w.table.has(r.owner) {
				t.Errorf("relay %d: %+v, want that it publishes its share of %d lanes", i, n, w.table.has(r.owner))
			}
		}
		if n := w.kafka.size(); n != 300 {
			t.Errorf("%d records of 300 events: relays that hand lanes over in peace publish nothing twice", n)
		}
	})
}

func TestMoreRelaysThanLanesWaitAndTakeOver(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(2, w).named(4)
		for _, r := range relays {
			r.start()
		}
		w.wantShares(relays, 0, 0, 1, 1)
		w.until("two that wait", func() bool {
			n := 0
			for _, r := range relays {
				if r.Stats().Waiting != "" {
					n++
				}
			}
			return n == 2
		})
	})
}

func TestACleanStopHandsItsLanesOverWithinASecond(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(8, w).named(2)
		relays[0].start()
		relays[1].start()
		w.wantShares(relays, 4, 4)
		stopped := time.Now()
		relays[0].wantStopped()
		w.table.insertMany(100, spread(50))
		w.untilPublished()
		if took := time.Since(stopped); took > time.Second {
			t.Errorf("the lanes of a relay that stopped were published after %s", took)
		}
		w.wantShares(relays, 0, 8)
	})
}

// A relay that is killed says nothing: its lanes are taken when they have run out, and not before.
func TestACrashHandsItsLanesOverWithinTheTTL(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(8, w).named(2)
		relays[0].start()
		w.wantShares(relays[:1], 8)
		dead := Owner{Name: "dead"}
		dead.ID[0] = 1
		w.table.mu.Lock()
		until := time.Now().Add(15 * time.Second)
		for i := range 4 {
			w.table.lanes[i] = fakeLane{owner: dead, epoch: 100, expires: until}
		}
		w.table.mu.Unlock()
		w.until("term ended", func() bool { return relays[0].log.count("relay interrupted") > 0 })
		w.until("its lanes again", func() bool { return w.table.has(relays[0].owner) == 8 })
		if late := time.Since(until); late < 0 || late > time.Second {
			t.Errorf("lanes were taken %s after they had run out", late)
		}
	})
}

func TestALaneIsGivenBackOnlyWhenItHasDrained(t *testing.T) {
	inWorld(t, func(w *world) {
		hold := newHeld()
		relays := shared(4, w).named(2)
		relays[0].publisher.hold = hold.all
		relays[0].start()
		w.wantShares(relays[:1], 4)
		events := w.table.insertMany(40, spread(20))
		w.until("everything outstanding", func() bool { return relays[0].Stats().Outstanding > 0 && relays[0].Stats().InFlight == 40 })
		relays[1].start()
		after(5 * time.Second)
		w.wantShares(relays, 0, 4)
		hold.letGo()
		w.wantShares(relays, 2, 2)
		w.untilPublished()
		for _, e := range events {
			if n := slices.Index(w.kafka.of(e.Key()), e.ID); n < 0 {
				t.Errorf("event %d is not in Kafka", e.ID)
			}
		}
		if n := w.kafka.size(); n != 40 {
			t.Errorf("%d records, want 40", n)
		}
	})
}

// What does not drain is kept, read on, and tried again later.
func TestALaneThatCannotDrainIsKeptAndTriedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		hold := newHeld()
		relays := shared(2, w).named(2)
		stuck := keyOfLane(w.table, 1)
		relays[0].publisher.hold = hold.of(stuck)
		relays[0].start()
		w.wantShares(relays[:1], 2)
		w.table.insert(stuck)
		w.until("it outstanding", func() bool { return relays[0].Stats().Outstanding == 1 })
		relays[1].start()
		w.until("kept", func() bool { return relays[0].log.count("lanes kept that another relay should have") == 1 })
		other := Key{stuck.Topic, "another"}
		for i := 0; w.table.lane(other) != 1; i++ {
			other.PartitionKey = fmt.Sprint("another ", i)
		}
		w.table.insert(other)
		w.until("another key of the lane published", func() bool { return len(w.kafka.of(other)) == 1 })
		hold.letGo()
		w.wantShares(relays, 1, 1)
		w.untilPublished()
	})
}

func keyOfLane(f *fakeTable, lane int32) Key {
	for i := 0; ; i++ {
		if key := (Key{"topic", fmt.Sprint("key ", i)}); f.lane(key) == lane {
			return key
		}
	}
}

func TestKeysThatWereParkedByOneRelayStayParkedForTheNext(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(2, w).named(2)
		bad := keyOfLane(w.table, 1)
		for _, r := range relays {
			r.publisher.fail = func(e *Event) error {
				if e.ID == 1 {
					return failure(ClassEvent)
				}
				return nil
			}
		}
		first := w.table.insert(bad)
		relays[0].start()
		w.until("parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		relays[1].start()
		w.wantShares(relays, 1, 1)
		w.table.insert(bad)
		after(10 * time.Second)
		w.wantRecords(bad)
		for _, r := range relays {
			r.publisher.scriptMu.Lock()
			r.publisher.fail = nil
			r.publisher.scriptMu.Unlock()
		}
		w.table.request("retry", bad)
		w.untilPublished()
		w.wantRecords(bad, first.ID, first.ID+1)
	})
}

func TestAFailedReleaseEndsTheTermAndLosesNothing(t *testing.T) {
	for _, op := range []string{"look", "release", "claim", "parked"} {
		t.Run(op, func(t *testing.T) {
			inWorld(t, func(w *world) {
				relays := shared(8, w).named(2)
				relays[0].start()
				relays[1].start()
				w.wantShares(relays, 4, 4)
				relays[0].source.before.set(failing(op, 1))
				relays[1].source.after.set(failing(op, 1))
				third := w.relay(Config{Name: "third"}).start()
				w.table.insertMany(100, spread(30))
				w.wantShares(append(relays, third), 2, 3, 3)
				third.wantStopped()
				w.wantShares(relays, 4, 4)
				w.untilPublished()
			})
		})
	}
}

func TestOnceEndsWhenItsShareIsPublished(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insertMany(100, spread(30))
		relays := shared(4, w).named(1)
		relays[0].start()
		once := w.relay(Config{Name: "once", Once: true}).start()
		if err := <-once.ran; err != nil {
			t.Errorf("run: %v", err)
		}
		w.untilPublished()
		w.wantShares(relays, 4)
	})
}

// A relay that has died but whose registration has not run out leaves free lanes for a while: Once waits for them.
func TestOnceDoesNotEndWhileLanesAreFree(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insertMany(100, spread(30))
		shared(4, w)
		w.table.register(uuid.New(), 20*time.Second).standing = StandingTried
		once := w.relay(Config{Name: "once", Once: true}).start()
		if err := <-once.ran; err != nil || w.table.open() > 0 {
			t.Errorf("run: %v, %d events left", err, w.table.open())
		}
	})
}

func TestShareCoversEveryLane(t *testing.T) {
	t.Parallel()
	for lanes := range 20 {
		for relays := range 25 {
			if s := Share(lanes, relays); s*max(relays, 1) < lanes || lanes > 0 && s < 1 {
				t.Errorf("share of %d lanes among %d relays: %d", lanes, relays, s)
			}
		}
	}
}
