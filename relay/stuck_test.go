package relay

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSettlerSettlesTheOthersWhenSomeRowsCannotBeSettled(t *testing.T) {
	t.Parallel()
	s := newSettling(5)
	s.table.row(s.events[1].Ref()).unsettleable = true
	s.table.row(s.events[3].Ref()).published = true
	s.add(refsOf(s.events))
	if err := s.flush(t.Context(), s.note); err != nil {
		t.Fatal(err)
	}
	if want := []Ref{s.events[1].Ref()}; s.reported != 4 || s.found != 3 || !slices.Equal(s.unsettled, want) || s.waiting() != 0 {
		t.Errorf("reported %d, found %d, unsettled %v, waiting %d; want 4, 3, %v, 0", s.reported, s.found, s.unsettled, s.waiting(), want)
	}
	if !slices.Equal(s.stuckRefs(), s.unsettled) {
		t.Errorf("remembered %v, want %v", s.stuckRefs(), s.unsettled)
	}
}

// unsettleable writes ten events of which one cannot be settled.
func (w *world) unsettleable() *Event {
	bad := w.table.insert(keyA)
	w.table.row(bad.Ref()).unsettleable = true
	w.table.insertMany(9, func(i int) Key { return []Key{keyA, keyB, keyC}[i%3] })
	return bad
}

func TestARowThatCannotBeSettledIsPublishedOnceAndStopsNobody(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.unsettleable()
		r := w.relay(Config{}).start()
		w.until("all others settled", func() bool { return w.table.open() == 1 })
		after(5 * time.Minute) // many sweeps
		w.table.insert(keyA)
		w.until("the next one settled", func() bool { return w.table.open() == 1 })
		s := r.Stats()
		if s.Unsettled != 1 || s.Settled != 10 || s.ForeignSettles != 0 || s.SweepFinds != 0 || s.LastError != nil {
			t.Errorf("stats %+v; want 1 unsettled, 10 settled, nothing foreign, nothing found, no error", s)
		}
		if n := r.log.count("cannot be marked"); n != 1 {
			t.Errorf("said %d times, want once:\n%s", n, r.log.text.String())
		}
		var left *DrainError
		if err := r.stop(); !errors.As(err, &left) || left.Unsettled != 1 {
			t.Errorf("run: %v, want one event unsettled", err)
		}
		if w.kafka.size() != 11 || w.table.settled(bad.Ref()) {
			t.Errorf("%d records, want 11", w.kafka.size())
		}
	})
}

func TestARowThatCannotBeSettledIsNotPublishedAgainByALaterTerm(t *testing.T) {
	for _, op := range []string{"read", "settle"} {
		t.Run(op, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.unsettleable()
				r := w.relay(Config{})
				if op == "settle" {
					r.source.before.set(failing(op, 1))
				}
				r.start()
				w.until("all others settled", func() bool { return w.table.open() == 1 })
				r.source.before.set(failing("read", 3))
				after(time.Minute)
				w.table.insert(keyB)
				w.until("the next one settled", func() bool { return w.table.open() == 1 })
				after(2 * time.Minute)
				if w.kafka.size() != 11 || r.Stats().Unsettled != 1 {
					t.Errorf("%d records, %d unsettled; want 11, 1", w.kafka.size(), r.Stats().Unsettled)
				}
			})
		})
	}
}

func TestARequestIsCarriedOutBesideARowThatCannotBeSettled(t *testing.T) {
	inWorld(t, func(w *world) {
		stuck := w.table.insert(keyA)
		w.table.row(stuck.Ref()).unsettleable = true
		poison := w.table.insert(keyA)
		r := w.relay(Config{})
		r.publisher.fail = func(e *Event) error {
			if e == poison {
				return failure(ClassEvent)
			}
			return nil
		}
		r.start()
		w.until("parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		w.table.request("discard", keyA)
		w.until("discarded", func() bool { return w.table.settled(poison.Ref()) })
	})
}

func TestOnceEndsWithARowThatCannotBeSettled(t *testing.T) {
	inWorld(t, func(w *world) {
		w.unsettleable()
		r := w.relay(Config{Once: true}).start()
		var left *DrainError
		if err := <-r.ran; !errors.As(err, &left) || left.Unsettled != 1 {
			t.Errorf("run: %v, want one event unsettled", err)
		}
	})
}

// roomless runs a relay with room for four events, all of which cannot be settled.
func (w *world) roomless(once bool) *running {
	for _, e := range w.table.insertMany(8, spread(8)) {
		w.table.row(e.Ref()).unsettleable = true
	}
	return w.relay(Config{Once: once, MaxInFlight: 4}).start()
}

func TestRowsThatCannotBeSettledAndLeaveNoRoomAreSaidOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.roomless(false)
		w.until("said", func() bool { return r.log.count("nothing is read any more") == 1 })
		after(time.Minute)
		if n := r.log.count("nothing is read any more"); n != 1 {
			t.Errorf("said %d times, want once", n)
		}
	})
}

func TestOnceEndsWhenRowsThatCannotBeSettledLeaveNoRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		err := <-w.roomless(true).ran
		if err == nil || !strings.Contains(err.Error(), "4 events of public.outbox_event") {
			t.Errorf("run: %v, want that the events leave no room", err)
		}
	})
}

// Somebody who marks rows without a lease is said and counted; whoever took over when the lease had run out is not.
func TestForeignSettlesAreThoseOfNobodysLease(t *testing.T) {
	for name, late := range map[string]bool{"in the lease": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.table.insertMany(3, spread(3))
				r := w.relay(Config{})
				r.source.before.set(func(_ context.Context, op string) error {
					if late && op == "renew" {
						return errBroken
					}
					if op != "settle" {
						return nil
					}
					if late {
						<-time.After(testSilence + time.Second)
					}
					w.table.mu.Lock()
					defer w.table.mu.Unlock()
					for _, row := range w.table.rows {
						row.published = true
					}
					return nil
				})
				r.start()
				w.until("settled", func() bool { return r.settler.waiting() == 0 && w.table.open() == 0 })
				r.wantStopped()
				want := int64(3)
				if late {
					want = 0
				}
				if n := r.Stats().ForeignSettles; n != want || r.log.count("somebody else settles") != min(1, int(want)) {
					t.Errorf("%d foreign settles, want %d; log:\n%s", n, want, r.log.text.String())
				}
			})
		})
	}
}
