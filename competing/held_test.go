package competing

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/relay"
)

// clock is a time that a test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time           { return c.at }
func (c *clock) advance(by time.Duration) { c.at = c.at.Add(by) }

func newTestHeld() (*held, *clock) {
	c := &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return newHeld(Config{RetryInterval: 5 * time.Second, TopicCheckInterval: 2 * time.Second, now: c.now}), c
}

var errBad = errors.New("bad")

func TestAKeyWaitsLongerWithEachFailure(t *testing.T) {
	t.Parallel()
	h, c := newTestHeld()
	key := relay.Key{Topic: "t", PartitionKey: "k"}
	for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 300 * time.Second, 300 * time.Second} {
		if got := h.failKey(key, errBad); got != want {
			t.Fatalf("held for %s, want %s", got, want)
		}
		if again := h.failKey(key, errBad); again != 0 {
			t.Fatalf("a second failure in the same pass holds for %s, want it not counted", again)
		}
		c.advance(want - 1)
		if keys, _ := h.active(); len(keys) != 1 {
			t.Fatal("the key is tried too early")
		}
		c.advance(1)
		if keys, _ := h.active(); len(keys) != 0 {
			t.Fatal("the key is not tried again")
		}
	}
	h.acked(&relay.Event{Topic: "t", PartitionKey: "k"})
	if got := h.failKey(key, errBad); got != 5*time.Second {
		t.Errorf("after a success it is held for %s, want to begin anew", got)
	}
}

func TestWhatWasNotHeardOfForLongIsForgotten(t *testing.T) {
	t.Parallel()
	h, c := newTestHeld()
	h.failKey(relay.Key{Topic: "t", PartitionKey: "k"}, errBad)
	h.failTopic("gone", errBad)
	h.keepKey(relay.Key{Topic: "t", PartitionKey: "unmarked"}, errBad)
	c.advance(time.Hour)
	keys, topics := h.active()
	if len(keys) != 1 || keys[0].PartitionKey != "unmarked" || len(topics) != 0 {
		t.Errorf("held: %v and %v, want only the key that is held for good", keys, topics)
	}
	if n, topics := h.count(); n != 1 || len(topics) != 0 {
		t.Errorf("%d keys and %v are remembered, want one key", n, topics)
	}
}

func TestATopicOfManyBadKeysIsHeldAsAWhole(t *testing.T) {
	t.Parallel()
	h, _ := newTestHeld()
	for i := range maxHeldKeys + 10 {
		h.failKey(relay.Key{Topic: "t", PartitionKey: fmt.Sprint(i)}, errBad)
	}
	keys, topics := h.active()
	if len(keys) != maxHeldKeys || len(topics) != 1 || topics[0] != "t" {
		t.Errorf("%d keys and the topics %v are held, want %d and the topic", len(keys), topics, maxHeldKeys)
	}
}
