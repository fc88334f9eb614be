package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestDeadLetterTopicsOfTopicsInTheTableAreLookedAtBeforeTheyAreNeeded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insert(Key{"orders", "a"})
		w.table.insert(Key{"payments", "a"})
		w.table.insert(Key{"audit", "a"})
		w.kafka.setMissing("dead.orders", true)
		w.kafka.setMissing("dead.audit", true)
		r := w.relay(Config{Policies: append([]Policy{{Topics: "audit", OnFailure: Park}}, deadLetter("dead.{topic}")...)})
		r.start()
		w.untilPublished()
		r.wantStopped()
		if n := r.log.count("takes no letters"); n != 1 || r.log.count("dead_letter_topic=dead.orders topic=orders code=UNKNOWN_TOPIC_OR_PARTITION") != 1 {
			t.Errorf("%d warnings, want one, of dead.orders", n)
		}
	})
}

func TestManyMissingDeadLetterTopicsAreSummedUp(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 30 {
			w.table.insert(Key{fmt.Sprint("t", i), "a"})
			w.kafka.setMissing(fmt.Sprintf("dead.t%d", i), true)
		}
		r := w.relay(Config{Policies: deadLetter("dead.{topic}")})
		r.start()
		w.untilPublished()
		r.wantStopped()
		if n := r.log.count("a dead-letter topic takes no letters"); n != burstLines || r.log.count("more dead-letter topics take no letters\" topics=20") != 1 {
			t.Errorf("%d lines, want %d and one that sums up", n, burstLines)
		}
	})
}

func TestTopicsThatCannotBeListedStopNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insert(keyA)
		r := w.relay(Config{Policies: deadLetter("dead.{topic}")})
		r.source.before.set(func(_ context.Context, op string) error {
			if op == "topics" {
				return errors.New("permission denied")
			}
			return nil
		})
		r.start()
		w.untilPublished()
		r.wantStopped()
	})
}

// An operator raises the limit of a dead-letter topic and lets the key go on at once: the last look, a moment ago, must not count.
func TestTheDeadLetterTopicOfAKeyThatGoesOnIsLookedAtAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(keyA)
		w.kafka.setMissing("dead.orders", true)
		r := w.relay(Config{Policies: deadLetter("dead.{topic}")})
		r.publisher.fail = rejects(bad)
		r.start()
		w.until("parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		before := w.kafka.looksAt("dead.orders")
		w.kafka.setMissing("dead.orders", false)
		w.table.request("retry", keyA)
		w.untilPublished()
		r.wantStopped()
		if n := w.kafka.looksAt("dead.orders") - before; n != 1 {
			t.Errorf("the dead-letter topic was looked at %d times, want once", n)
		}
		if len(w.table.deadEvents()) != 1 {
			t.Errorf("dead events: %v", w.table.deadEvents())
		}
	})
}

// A pattern may find the dead-letter topic itself: what cannot be published there must not be sent there for that.
func TestWhatFailsInADeadLetterTopicIsNotSentThere(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := w.table.insert(Key{"dead", "a"})
		r := w.relay(Config{Policies: deadLetter("dead")})
		r.publisher.fail = rejects(bad)
		r.start()
		w.until("parked", func() bool { return len(w.table.parkedKeys()) == 1 })
		r.wantStopped()
		if p := w.table.parked[bad.Key()]; !strings.Contains(p.Reason, "its own dead-letter topic") || len(r.publisher.sent()) != 0 {
			t.Errorf("parked %+v, letters %v", p, r.publisher.sent())
		}
	})
}
