package relay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// rejectsBehind is the failure of the given events, oldest first, by a publisher that says which ones behind an event it refuses, too.
func rejectsBehind(bad []*Event) func(*Event) error {
	refusal := func(e *Event) *PublishError {
		return &PublishError{Class: ClassEvent, Code: "TOO_BAD", Topic: e.Topic, Err: fmt.Errorf("event %d is bad", e.ID)}
	}
	return func(e *Event) error {
		i := slices.Index(bad, e)
		if i < 0 {
			return nil
		}
		err, behind := refusal(e), []Refused(nil)
		for _, b := range bad[i+1:] {
			if b.Key() == e.Key() {
				behind = append(behind, Refused{b, refusal(b)})
			}
		}
		if len(behind) > 0 {
			err.Err = &BehindError{err.Err, behind}
		}
		return err
	}
}

// everyOther inserts events of the key, and returns those in the places 1, 3, 5.
func everyOther(w *world, n int, key Key) (others []*Event) {
	for i, e := range w.table.insertMany(n, func(int) Key { return key }) {
		if i%2 == 1 {
			others = append(others, e)
		}
	}
	return others
}

func TestManyBadEventsOfAKeyAreGivenUpTogether(t *testing.T) {
	for name, policies := range map[string][]Policy{"skipped": {{OnFailure: Skip}}, "moved": {{OnFailure: DeadLetter}}, "sent": deadLetter("dead")} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				const events = 3 * writeAtOnce
				bad := everyOther(w, events, keyA)
				var turns atomic.Int64
				r := w.relay(Config{Once: true, Policies: policies})
				rejects := rejectsBehind(bad)
				r.publisher.fail = func(e *Event) error {
					err := rejects(e)
					if err != nil {
						turns.Add(1)
					}
					return err
				}
				if err := <-r.start().ran; err != nil {
					t.Fatal(err)
				}
				if got := w.kafka.of(keyA); len(got) != events-len(bad) || !slices.IsSorted(got) {
					t.Errorf("%d records, sorted %t; want %d in order", len(got), slices.IsSorted(got), events-len(bad))
				}
				dead := w.table.deadEvents()
				slices.SortFunc(dead, func(a, b DeadEvent) int { return cmp.Compare(a.Event.ID, b.Event.ID) })
				for i, d := range dead {
					if d.Event != bad[i].Ref() || d.Code != "TOO_BAD" || d.EventType != bad[i].Type || (d.Letter != nil) != (name == "sent") {
						t.Fatalf("dead event %d: %+v, want event %d", i, d, bad[i].ID)
					}
				}
				if n := len(r.publisher.sent()); n != len(bad) && name == "sent" || n > 0 && name != "sent" {
					t.Errorf("%d letters of %d events", n, len(bad))
				}
				if s := r.Stats(); len(dead) != len(bad) || s.Dead != int64(len(bad)) || s.Errors[ClassEvent] != int64(len(bad)) {
					t.Errorf("%d dead events, stats %+v; want %d", len(dead), s, len(bad))
				}
				if n := turns.Load(); n > 5 {
					t.Errorf("%d events were given up in %d turns", len(bad), n)
				}
			})
		})
	}
}

func TestAPolicyThatParksStopsTheKeyAtTheFirstOfManyBadEvents(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := everyOther(w, 20, keyA)
		r := w.relay(Config{})
		r.publisher.fail = rejectsBehind(bad)
		r.start()
		w.until("parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		after(time.Minute)
		r.wantStopped()
		w.wantRecords(keyA, bad[0].ID-1)
		if p := w.table.parked[keyA]; p.Event != bad[0].Ref() || len(w.table.deadEvents()) > 0 {
			t.Errorf("parked: %+v, dead: %v", p, w.table.deadEvents())
		}
	})
}

func TestEachOfManyBadEventsHasItsAttempts(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := everyOther(w, 6, keyA)
		r := w.relay(Config{Policies: []Policy{{OnFailure: Skip, MaxAttempts: 2}}})
		r.publisher.fail = rejectsBehind(bad)
		r.start()
		w.untilPublished()
		r.wantStopped()
		w.wantRecords(keyA, bad[0].ID-1, bad[1].ID-1, bad[2].ID-1)
		if n := r.Stats().Errors[ClassEvent]; n != int64(2*len(bad)) || len(w.table.deadEvents()) != len(bad) {
			t.Errorf("%d attempts, %d dead events; want 2 of each of %d", n, len(w.table.deadEvents()), len(bad))
		}
	})
}

// A good event is never kept for the sake of a bad one behind it that cannot be moved.
func TestABadEventThatCannotBeMovedYetKeepsNoneInFrontOfIt(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := everyOther(w, 6, keyA)
		w.table.lockRows(true, bad[1].Ref())
		r := w.relay(Config{Policies: []Policy{{OnFailure: Skip}}})
		r.publisher.fail = rejectsBehind(bad)
		r.start()
		w.until("what is in front of it is out", func() bool { return len(w.kafka.of(keyA)) == 2 })
		after(time.Minute)
		if n := len(w.table.deadEvents()); n != 2 {
			t.Errorf("%d dead events, want the 2 whose rows are free", n)
		}
		w.table.lockRows(false)
		w.untilPublished()
		r.wantStopped()
		w.wantRecords(keyA, bad[0].ID-1, bad[1].ID-1, bad[2].ID-1)
	})
}

func TestAKeyStopsAtTheFirstOfManyBadEventsThatCannotBeMoved(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := everyOther(w, 20, keyA)
		w.table.keeps = true
		r := w.relay(Config{Policies: []Policy{{OnFailure: Skip}}})
		r.publisher.fail = rejectsBehind(bad)
		r.start()
		w.until("parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		r.wantStopped()
		if p := w.table.parked[keyA]; p.Event != bad[0].Ref() {
			t.Errorf("parked: %+v, want event %d", p, bad[0].ID)
		}
	})
}

// The letters of some are acknowledged, that of another is not: the key stops there, and none has a second letter.
func TestAKeyStopsAtTheEventWhoseLetterIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := everyOther(w, 20, keyA)
		r := w.relay(Config{Policies: deadLetter("dead")})
		r.publisher.fail = rejectsBehind(bad)
		r.publisher.failLetter = func(l Letter) error {
			if l.Event == bad[3] || l.Event == bad[5] {
				return &PublishError{Class: ClassEvent, Code: "NO", Err: errors.New("not this one")}
			}
			return nil
		}
		r.start()
		w.until("parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		after(time.Minute)
		r.wantStopped()
		if p := w.table.parked[keyA]; p.Event != bad[3].Ref() || len(r.publisher.sent()) != len(bad)-2 || len(w.table.deadEvents()) != len(bad)-2 {
			t.Errorf("parked: %+v; %d letters, %d dead events of %d", p, len(r.publisher.sent()), len(w.table.deadEvents()), len(bad))
		}
	})
}
