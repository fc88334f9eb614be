package relay

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// total is how many values a distribution has.
func total(d Distribution) (n uint64) {
	for _, c := range d.Counts {
		n += c
	}
	return n
}

// The process's clock is wrong by an hour, and the figures are not: an event's lag is the database's business.
func TestLagIsByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour, "the same": 0} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := w.relay(Config{})
				r.source.ahead = ahead
				w.table.insert(keyA).CreatedAt = time.Now().Add(ahead - 2*time.Second)
				w.table.insert(keyB).CreatedAt = time.Time{}
				w.table.insert(keyA).CreatedAt = time.Now().Add(ahead + 24*time.Hour)
				r.start()
				w.until("the two are published", func() bool { return r.Stats().Published == 3 })
				lag := r.Stats().Measures.Lag
				if total(lag) != 2 || lag.Sum < 2 || lag.Sum > 3 {
					t.Errorf("%d lags of %v s in all, want 2 of little above 2 s: no created_at counts for nothing, one in the future for 0", total(lag), lag.Sum)
				}
			})
		})
	}
}

func TestMeasuresOfWhatARelayDoes(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{})
		if m := r.Stats().Measures; m.Connected || total(m.Read) != 0 || len(m.Publish.Counts) != len(m.Publish.Bounds)+1 {
			t.Errorf("before the start: %+v", m)
		}
		w.table.insertMany(30, func(int) Key { return keyA })
		w.table.insertMany(3, func(int) Key { return Key{"other", "b"} })
		r.start()
		w.until("all is settled", func() bool { return w.table.open() == 0 })
		m := r.Stats().Measures
		if !m.Connected || m.SourceLanes != 1 || m.LanesTaken != 1 || m.LanesReturned != 0 || m.LanesLost != 0 {
			t.Errorf("connected %t, of %d lanes %d taken, %d returned, %d lost; want true, 1, 1, 0, 0", m.Connected, m.SourceLanes, m.LanesTaken, m.LanesReturned, m.LanesLost)
		}
		if total(m.Read) == 0 || total(m.Settle) == 0 || total(m.Publish) != 33 || m.ReadEvents.Sum != 33 {
			t.Errorf("%d reads of %v events, %d settles, %d publishes; want some, 33, some, 33", total(m.Read), m.ReadEvents.Sum, total(m.Settle), total(m.Publish))
		}
		if m.Topics[keyA.Topic] != 30 || m.Topics["other"] != 3 || len(m.Topics) != 2 {
			t.Errorf("by topic: %v, want 30 and 3", m.Topics)
		}
		r.wantStopped()
		if m := r.Stats().Measures; m.LanesReturned != 1 {
			t.Errorf("%d lanes returned, want 1", m.LanesReturned)
		}
	})
}

func TestALostLeaseIsCountedAndTheConnectionIsGone(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{}).start()
		w.until("the relay works", func() bool { return r.Stats().Leading })
		r.source.before.set(func(_ context.Context, op string) error {
			if op == "renew" || op == "open" {
				return errors.Join(errBroken, ErrLeaseLost)
			}
			return nil
		})
		w.until("the term has ended", func() bool { return r.Stats().LastError != nil })
		if m := r.Stats().Measures; m.LanesLost != 1 || m.Connected {
			t.Errorf("%d lanes lost, connected %t; want 1, false", m.LanesLost, m.Connected)
		}
	})
}

func TestTopicsAreCountedInRuns(t *testing.T) {
	t.Parallel()
	var m measures
	event := func(topic string, err error) outcome { return outcome{&Event{Topic: topic}, err} }
	m.noteTopics(slices.Concat([]outcome{event("a", nil), event("a", nil), event("b", errBroken), event("b", nil), event("a", nil), event("c", errBroken)}))
	if got := m.topics.Counts(); got["a"] != 3 || got["b"] != 1 || len(got) != 2 {
		t.Errorf("got %v, want 3 of a and 1 of b", got)
	}
}
