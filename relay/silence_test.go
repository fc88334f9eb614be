package relay

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// What is outstanding shows a silence, and so does a question while nothing is; an answer ends it.
func TestARelayReportsThatKafkaIsSilent(t *testing.T) {
	for name, busy := range map[string]bool{"with events outstanding": true, "with nothing to do": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.table.insert(keyA)
				r := w.relay(Config{})
				n := between(r)
				r.start()
				w.until("the first event is settled", func() bool { return w.table.open() == 0 })
				silent := func() time.Duration { return w.table.silent(r.owner.ID) }
				after(30 * time.Second)
				if silent() != 0 {
					t.Fatalf("silent for %s while Kafka answers", silent())
				}
				n.cut()
				if busy {
					w.table.insert(keyA)
				}
				after(14 * time.Second)
				if got := silent(); got < engine.WorthReporting {
					t.Errorf("silent for %s after 14 s, want %s or more", got, engine.WorthReporting)
				}
				n.heal()
				w.until("it answers", func() bool { return silent() == 0 })
			})
		})
	}
}

// wantSeenWaiting wants the relay seen as one that is alive, has no answer from Kafka, and has no part in the share, for half a minute.
func (w *world) wantSeenWaiting(r *running) {
	w.t.Helper()
	seen := func() (alive, silent bool, standing Standing) {
		w.table.mu.Lock()
		defer w.table.mu.Unlock()
		me := w.table.relays[r.owner.ID]
		if !me.alive() {
			return false, false, 0
		}
		return true, me.silent > 0, me.standing
	}
	w.until("it is seen", func() bool { alive, silent, _ := seen(); return alive && silent })
	for range 300 {
		after(100 * time.Millisecond)
		if alive, silent, standing := seen(); !alive || !silent || standing != StandingNew {
			w.t.Fatalf("seen alive: %v, Kafka silent: %v, standing %d; want true, true, %d", alive, silent, standing, StandingNew)
		}
	}
}

// wantGone wants nothing left of a relay that has stopped.
func (w *world) wantGone(r *running) {
	w.t.Helper()
	r.wantStoppedAnyhow()
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	if w.table.relays[r.owner.ID] != nil {
		w.t.Error("a relay that has stopped is registered")
	}
}

func TestARelayThatWaitsForKafkaIsSeen(t *testing.T) {
	cases := map[string]func(w *world, net *network, a, b *running){
		"since it started": func(w *world, net *network, a, b *running) {
			net.cut()
			b.start()
			w.wantShares([]*running{b}, 8)
			a.start()
		},
		"since it left its lanes": func(w *world, net *network, a, b *running) {
			a.start()
			b.start()
			w.wantShares([]*running{a, b}, 4, 4)
			stop := w.writeOn()
			net.cut()
			w.until("the other has all", func() bool { return w.table.has(b.owner) == 8 })
			stop()
		},
		"while it waits for lanes": func(w *world, net *network, a, b *running) {
			shared(1, w)
			b.start()
			w.wantShares([]*running{b}, 1)
			a.start()
			after(time.Minute)
			net.cut()
			after(15 * time.Second)
		},
	}
	for name, begin := range cases {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				shared(8, w)
				a, b := w.relay(Config{Name: "a", StartTimeout: -1}), w.relay(Config{Name: "b"})
				net := between(a)
				begin(w, net, a, b)
				w.wantSeenWaiting(a)
				if n := w.table.has(a.owner); n != 0 {
					t.Errorf("it has %d lanes", n)
				}
				net.heal()
				w.until("Kafka answers it", func() bool { return w.table.silent(a.owner.ID) == 0 })
				w.wantGone(a)
			})
		})
	}
}

// It stands back although Kafka answers its questions.
func TestARelayThatStandsBackIsSeen(t *testing.T) {
	inWorld(t, func(w *world) {
		relays := shared(8, w).named(2)
		net := between(relays[0])
		relays[0].publisher.onOpen = nil
		relays[0].start()
		relays[1].start()
		w.wantShares(relays, 4, 4)
		stop := w.writeOn()
		net.cut()
		w.until("the other has all", func() bool { return w.table.has(relays[1].owner) == 8 })
		stop()
		w.until("it stands back", func() bool { return relays[0].Stats().Waiting != "" })
		for range 50 {
			after(100 * time.Millisecond)
			w.table.mu.Lock()
			me := w.table.relays[relays[0].owner.ID]
			good := me.alive() && me.standing == StandingNew && time.Since(me.seen) < 6*time.Second
			w.table.mu.Unlock()
			if !good {
				t.Fatalf("registration: %+v, want it alive, new, and seen a moment ago", me)
			}
		}
	})
}
