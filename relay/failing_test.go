package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// rejects is the failure of the given events, by their own fault.
func rejects(bad ...*Event) func(*Event) error {
	return func(e *Event) error {
		if slices.Contains(bad, e) {
			return &PublishError{Class: ClassEvent, Code: "TOO_BAD", Topic: e.Topic, Err: errors.New("it is bad")}
		}
		return nil
	}
}

func deadLetter(topic string) []Policy {
	return []Policy{{OnFailure: DeadLetter, DeadLetterTopic: topic}}
}

func TestDeadLetterIsSentAndItsKeyGoesOnBehindIt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insert(keyA)
		bad := w.table.insert(keyA)
		w.table.insertMany(20, func(i int) Key { return []Key{keyA, keyB}[i%2] })
		r := w.relay(Config{Name: "one", Policies: deadLetter("dead.{topic}")})
		r.publisher.fail = rejects(bad)
		r.start()
		w.untilPublished()
		r.wantStopped()
		if got := w.kafka.of(keyA); len(got) != 11 || !slices.IsSorted(got) || slices.Contains(got, bad.ID) {
			t.Errorf("records of the key: %v, want 11 in order, without event %d", got, bad.ID)
		}
		dead := w.table.deadEvents()
		if len(dead) != 1 || dead[0].Event != bad.Ref() || dead[0].Code != "TOO_BAD" || dead[0].Reason != "it is bad" || dead[0].By != "relay one" ||
			dead[0].Letter == nil || *dead[0].Letter != (Place{"dead.orders", 3, 1}) {
			t.Errorf("dead events: %+v", dead)
		}
		sent := r.publisher.sent()
		if len(sent) != 1 {
			t.Fatalf("letters: %+v, want one", sent)
		}
		if l := sent[0]; l.Topic != "dead.orders" || l.Event != bad || l.Code != "TOO_BAD" || l.Reason != "it is bad" || l.Attempts != 1 || l.At.IsZero() {
			t.Errorf("letter: %+v", l)
		}
		if s := r.Stats(); s.ParkedKeys != 0 || s.Dead != 1 || len(w.table.parkedKeys()) != 0 {
			t.Errorf("stats %+v, parked %v; want 1 dead and none parked", s, w.table.parkedKeys())
		}
	})
}

func TestEventIsMovedOnlyAfterItsLetterIsAcknowledged(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		w.table.insertMany(20, func(i int) Key { return []Key{keyA, keyB}[i%2] })
		answer := newHeld()
		first := w.relay(Config{Name: "first", Policies: deadLetter("dead")})
		first.publisher.fail = rejects(bad)
		first.publisher.holdLetter = answer.let
		first.start()
		w.until("the other key published", func() bool { return w.table.open() == 11 })
		after(time.Minute)
		if len(w.table.deadEvents())+len(w.kafka.of(keyA)) > 0 {
			t.Error("the event was moved, or its key went on, before its letter was acknowledged")
		}
		began := time.Now()
		first.wantStopped()
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the stop took %s", took)
		}
		second := w.relay(Config{Name: "second", Policies: deadLetter("dead")})
		second.publisher.fail = rejects(bad)
		second.start()
		w.untilPublished()
		second.wantStopped()
		if dead := w.table.deadEvents(); len(dead) != 1 || dead[0].By != "relay second" {
			t.Errorf("dead events: %+v", dead)
		}
	})
}

func TestStopWaitsForTheAnswerToALetter(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		answer := newHeld()
		r := w.relay(Config{Policies: deadLetter("dead")})
		r.publisher.fail = rejects(bad)
		r.publisher.holdLetter = answer.let
		r.start()
		w.until("failed", func() bool { return r.Stats().Errors[ClassEvent] == 1 })
		after(time.Second)
		time.AfterFunc(time.Second, answer.letGo)
		r.wantStopped()
		if len(w.table.deadEvents()) != 1 {
			t.Error("the event whose letter was acknowledged while the relay stopped was not moved")
		}
	})
}

func TestDeadLetterTopicThatFailsParksTheKeyAndSaysSo(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		w.table.insertMany(4, func(i int) Key { return []Key{keyA, keyB}[i%2] })
		w.kafka.setMissing("dead.orders", true)
		r := w.relay(Config{Policies: deadLetter("dead.{topic}")})
		r.publisher.fail = rejects(bad)
		r.start()
		w.until("parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		w.until("the other key published", func() bool { return len(w.kafka.of(keyB)) == 2 })
		r.wantStopped()
		p := w.table.parked[keyA]
		if p.Code != "TOO_BAD" || !strings.Contains(p.Reason, "it is bad") || !strings.Contains(p.Reason, "dead-letter topic dead.orders") ||
			!strings.Contains(p.Reason, "UNKNOWN_TOPIC_OR_PARTITION") || !strings.Contains(p.Reason, "outbox keys unpark --error 'dead-letter topic dead.orders does not take it: UNKNOWN_TOPIC_OR_PARTITION'") || len(w.table.deadEvents()) != 0 {
			t.Errorf("parked: %+v, dead: %v", p, w.table.deadEvents())
		}
	})
}

func TestNamedDeadLetterTopicMustExistAtTheStart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kafka.setMissing("dead", true)
		r := w.relay(Config{Policies: deadLetter("dead")})
		if err := <-r.start().ran; !errors.Is(err, ErrConfiguration) {
			t.Errorf("run: %v, want a configuration error", err)
		}
	})
}

func TestLetterIsSentAgainByTheNextClient(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		w.table.insert(keyA)
		var told atomic.Int64
		r := w.relay(Config{Policies: deadLetter("dead")})
		r.publisher.fail = rejects(bad)
		r.publisher.failLetter = func(Letter) error {
			switch told.Add(1) {
			case 1:
				return failure(ClassHeld)
			case 2:
				return failure(ClassUnknown)
			}
			return nil
		}
		r.start()
		w.untilPublished()
		r.wantStopped()
		w.wantRecords(keyA, 2)
		if n := told.Load(); n != 3 {
			t.Errorf("%d letters tried, want 3", n)
		}
	})
}

// heldLetters has letters not sent through no fault of their own until the time has come; a relay that sends them again without a pause has them taken.
func (w *world) heldLetters(r *running, until time.Time) (told *atomic.Int64) {
	told = new(atomic.Int64)
	r.publisher.failLetter = func(Letter) error {
		if n := told.Add(1); n < 1000 && time.Now().Before(until) {
			return failure(ClassHeld)
		}
		return nil
	}
	return told
}

func TestLetterThatWasNotSentGoesAgainWithEachLook(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		w.table.insert(keyA)
		r := w.relay(Config{LookInterval: time.Second, Policies: deadLetter("dead")})
		r.publisher.fail = rejects(bad)
		told := w.heldLetters(r, time.Now().Add(10*time.Second))
		r.start()
		w.untilPublished()
		r.wantStopped()
		w.wantRecords(keyA, 2)
		if n := told.Load(); n < 5 || n > 12 {
			t.Errorf("%d letters tried in 10 s, want one a second", n)
		}
	})
}

func TestStopLeavesALetterThatIsNotSentToTheNextRelay(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		first := w.relay(Config{Policies: deadLetter("dead")})
		first.publisher.fail = rejects(bad)
		told := w.heldLetters(first, time.Now().Add(time.Hour))
		first.start()
		w.until("a letter is tried", func() bool { return told.Load() > 0 })
		began := time.Now()
		first.wantStopped()
		if took := time.Since(began); took > time.Second || told.Load() > 10 {
			t.Errorf("the stop took %s, and %d letters were tried", took, told.Load())
		}
		if n := len(w.table.deadEvents()) + len(w.table.parkedKeys()); n > 0 || w.table.open() != 1 {
			t.Errorf("%d dead or parked, %d unpublished; want the event as it was", n, w.table.open())
		}
		next := w.relay(Config{Policies: deadLetter("dead")})
		next.publisher.fail = rejects(bad)
		next.start()
		w.untilPublished()
		next.wantStopped()
		if len(w.table.deadEvents()) != 1 {
			t.Errorf("dead events: %+v, want the one", w.table.deadEvents())
		}
	})
}

func TestSkippedEventIsKeptWithItsReason(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		w.table.insert(keyA)
		r := w.relay(Config{Policies: []Policy{{Topics: "payments*", OnFailure: Park}, {Topics: "ord*", OnFailure: Skip}}})
		r.publisher.fail = rejects(bad)
		r.start()
		w.untilPublished()
		r.wantStopped()
		w.wantRecords(keyA, 2)
		if dead := w.table.deadEvents(); len(dead) != 1 || dead[0].Code != "TOO_BAD" || dead[0].Reason != "skipped by policy: it is bad" {
			t.Errorf("dead events: %+v", dead)
		}
	})
}

// A lock on one row is nobody else's affair: the relay goes on, and neither the event nor its letter goes out again meanwhile.
func TestEventWhoseRowIsLockedIsMovedWhenItIsFree(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		w.table.insertMany(20, func(i int) Key { return []Key{keyA, keyB}[i%2] })
		w.table.lockRows(true)
		r := w.relay(Config{Policies: deadLetter("dead")})
		r.publisher.fail = rejects(bad)
		r.start()
		w.until("the other key published", func() bool { return w.table.open() == 11 })
		after(time.Minute)
		epoch := w.table.lanes[0].epoch
		if n := len(w.table.deadEvents()) + len(w.kafka.of(keyA)); n > 0 {
			t.Errorf("%d events moved, or published behind the locked one", n)
		}
		w.table.lockRows(false)
		w.untilPublished()
		if sent := r.publisher.sent(); len(sent) != 1 {
			t.Errorf("%d letters, want 1", len(sent))
		}
		if dead := w.table.deadEvents(); len(dead) != 1 || dead[0].Letter == nil || *dead[0].Letter != (Place{"dead", 3, 1}) {
			t.Errorf("dead events: %+v, want one that knows where its letter is", dead)
		}
		if now := w.table.lanes[0].epoch; now != epoch || epoch != 1 {
			t.Errorf("lane 0 has epoch %d, had %d: want 1, the first term's", now, epoch)
		}
		r.wantStopped()
	})
}

func TestEventThatTheDatabaseDoesNotLetGoParksItsKey(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.keeps = true
		bad := w.table.insert(keyA)
		w.table.insert(keyA)
		w.table.insert(keyB)
		r := w.relay(Config{Policies: []Policy{{OnFailure: Skip}}})
		r.publisher.fail = rejects(bad)
		r.start()
		w.until("parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		w.until("the other key published", func() bool { return len(w.kafka.of(keyB)) == 1 })
		r.wantStopped()
		if p := w.table.parked[keyA]; !strings.Contains(p.Reason, "it is bad") || !strings.Contains(p.Reason, "permission denied") {
			t.Errorf("parked: %+v", p)
		}
	})
}

func TestAnotherAttemptIsMadeAfterItsTimeAndOnlyItsKeyWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		w.table.insert(keyA)
		r := w.relay(Config{Policies: []Policy{{MaxAttempts: 4}}})
		var tries []time.Time
		r.publisher.fail = func(e *Event) error {
			if e == bad {
				tries = append(tries, time.Now())
				if len(tries) < 4 {
					return failure(ClassEvent)
				}
			}
			return nil
		}
		r.start()
		w.until("the key waits", func() bool { return r.Stats().DelayedKeys == 1 })
		began := time.Now()
		w.table.insert(keyB)
		w.until("the other key published", func() bool { return len(w.kafka.of(keyB)) == 1 })
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("the other key took %s", took)
		}
		w.untilPublished()
		w.until("no record left", func() bool { _, has := w.table.record(bad.Ref()); return !has })
		r.wantStopped()
		w.wantRecords(keyA, 1, 2)
		for i := 1; i < len(tries); i++ {
			wait, most := tries[i].Sub(tries[i-1]), time.Second<<i
			if wait < time.Second || wait > most+time.Second {
				t.Errorf("attempt %d came after %s, want 1 s to %s, and a look", i+1, wait, most)
			}
		}
		if s := r.Stats(); len(tries) != 4 || s.DelayedKeys != 0 || s.ParkedKeys != 0 {
			t.Errorf("%d attempts, stats %+v; want 4, none waiting or parked", len(tries), s)
		}
	})
}

// Many events that failed together are due together: they do not go out a handful at each look.
func TestManyEventsThatAreDueAreTriedAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		const keys = 20 * dueAtOnce
		w.table.insertMany(keys, func(i int) Key { return Key{"orders", fmt.Sprint("key", i)} })
		r := w.relay(Config{Policies: []Policy{{MaxAttempts: 2, MinBackoff: time.Minute, MaxBackoff: time.Minute}}})
		var failed atomic.Int64
		r.publisher.fail = func(*Event) error {
			if failed.Add(1) <= keys {
				return failure(ClassEvent)
			}
			return nil
		}
		r.start()
		w.until("all wait", func() bool { return r.Stats().DelayedKeys == keys })
		after(time.Minute - time.Second)
		began := time.Now()
		w.untilPublished()
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("it took %s", took)
		}
		r.wantStopped()
	})
}

func TestLastAttemptParksTheKeyWithAllThatWasTried(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		neighbours := w.table.insertMany(5, func(int) Key { return keyA })
		r := w.relay(Config{Policies: []Policy{{MaxAttempts: 3}}})
		r.publisher.fail = rejects(bad)
		r.start()
		w.until("parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		r.wantStopped()
		if got, _ := w.table.record(bad.Ref()); got.Attempts != 3 || got.last != "TOO_BAD" || !got.due.IsZero() {
			t.Errorf("record: %+v, want 3 attempts and no other", got)
		}
		for _, e := range neighbours {
			if got, has := w.table.record(e.Ref()); has {
				t.Errorf("a neighbour has a record: %+v", got)
			}
		}
	})
}

func TestFailureThatTimeMayCureIsTriedAgainByDefault(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		first := true
		r := w.relay(Config{})
		r.publisher.fail = func(e *Event) error {
			if e == bad && first {
				first = false
				return &PublishError{Class: ClassEvent, Code: "CORRUPT_MESSAGE", Passing: true, Err: errors.New("the wire")}
			}
			return nil
		}
		r.start()
		w.untilPublished()
		r.wantStopped()
		if len(w.table.parkedKeys()) != 0 {
			t.Error("the key was parked")
		}
	})
}

func TestNoRelayTriesEarlierThanTheDatabaseSays(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		policies := []Policy{{MaxAttempts: 100, MinBackoff: time.Minute, MaxBackoff: time.Minute}}
		var tries atomic.Int64
		fail := func(e *Event) error {
			if e == bad {
				tries.Add(1)
				return failure(ClassEvent)
			}
			return nil
		}
		// A relay after the other, each for ten seconds, for five minutes.
		for i := range 30 {
			r := w.relay(Config{Name: fmt.Sprint("relay ", i), Policies: policies})
			r.publisher.fail = fail
			r.start()
			after(10 * time.Second)
			r.wantStopped()
		}
		if n := tries.Load(); n < 4 || n > 6 {
			t.Errorf("%d attempts in five minutes, want one a minute", n)
		}
	})
}

func TestKeyThatWaitsGoesOnWhenAnOperatorAsks(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		mended := false
		r := w.relay(Config{Policies: []Policy{{MaxAttempts: 100, MinBackoff: time.Hour, MaxBackoff: time.Hour}}})
		r.publisher.fail = func(e *Event) error {
			if e == bad && !mended {
				mended = true
				return failure(ClassEvent)
			}
			return nil
		}
		r.start()
		w.until("the key waits", func() bool { return r.Stats().DelayedKeys == 1 })
		w.table.request("retry", keyA)
		began := time.Now()
		w.untilPublished()
		r.wantStopped()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestOnceGoesOnBehindEventsThatAreGivenUp(t *testing.T) {
	inWorld(t, func(w *world) {
		var bad []*Event
		for i := range 300 {
			if e := w.table.insert(keyA); i%3 == 0 {
				bad = append(bad, e)
			}
		}
		answer := newHeld()
		time.AfterFunc(5*time.Second, answer.letGo)
		r := w.relay(Config{Once: true, Policies: deadLetter("dead")})
		r.publisher.holdLetter = answer.let
		r.publisher.fail = rejects(bad...)
		if err := <-r.start().ran; err != nil {
			t.Errorf("run: %v", err)
		}
		if w.table.open() != 0 || len(w.kafka.of(keyA)) != 200 || len(w.table.deadEvents()) != 100 || len(r.publisher.sent()) != 100 {
			t.Errorf("%d open, %d records, %d dead, %d letters; want 0, 200, 100, 100",
				w.table.open(), len(w.kafka.of(keyA)), len(w.table.deadEvents()), len(r.publisher.sent()))
		}
	})
}

func TestOnceDoesNotWaitForLaterAttempts(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		r := w.relay(Config{Once: true, Policies: []Policy{{MaxAttempts: 3, MinBackoff: time.Hour, MaxBackoff: time.Hour}}})
		r.publisher.fail = rejects(bad)
		began := time.Now()
		if err := <-r.start().ran; err != nil {
			t.Errorf("run: %v", err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %s", took)
		}
		if _, has := w.table.record(bad.Ref()); !has {
			t.Error("the attempt is not written down")
		}
	})
}

func TestDatabaseErrorsWhileDecidingLoseNothing(t *testing.T) {
	for _, op := range []string{"failing", "retry", "due", "bury", "clear", "park"} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+op, func(t *testing.T) {
				inWorld(t, func(w *world) {
					var bad []*Event
					for range 10 {
						bad = append(bad, w.table.insert(keyA))
						w.table.insert(keyA)
					}
					parked := w.table.insert(keyC)
					r := w.relay(Config{Policies: []Policy{{Topics: "payments"}, {MaxAttempts: 2, OnFailure: DeadLetter, DeadLetterTopic: "dead"}}})
					r.publisher.fail = rejects(append(bad, parked)...)
					if when == "before" {
						r.source.before.set(failing(op, 3))
					} else {
						r.source.after.set(failing(op, 3))
					}
					r.start()
					w.until("only the parked one is left", func() bool { return w.table.open() == 1 && len(w.table.parkedKeys()) == 1 })
					r.wantStopped()
					if got := w.kafka.of(keyA); len(got) != 10 || !slices.IsSorted(got) || len(w.table.deadEvents()) != 10 {
						t.Errorf("records %v, %d dead; want 10 in order and 10", got, len(w.table.deadEvents()))
					}
				})
			})
		}
	}
}

// An operator may give the event up between its failure and the moment when that is written down: the key waits for nothing then.
func TestKeyWhoseFailedEventIsGoneGoesOnAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.table.insert(keyA)
		w.table.insert(keyA)
		r := w.relay(Config{Policies: []Policy{{MaxAttempts: 2, MinBackoff: time.Hour, MaxBackoff: time.Hour}}})
		r.publisher.fail = rejects(e)
		r.source.before.set(func(_ context.Context, op string) error {
			if op == "retry" {
				w.table.mu.Lock()
				defer w.table.mu.Unlock()
				w.table.row(e.Ref()).published = true
			}
			return nil
		})
		r.start()
		after(time.Minute)
		w.wantRecords(keyA, 2)
		if n := r.Stats().DelayedKeys; n != 0 {
			t.Errorf("%d keys wait for their next attempts", n)
		}
		if _, has := w.table.record(e.Ref()); has {
			t.Error("a failed attempt with the event that is gone was written down")
		}
		r.wantStopped()
	})
}
