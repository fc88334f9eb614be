//go:build integration

package kafka_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/relay"
)

// A consumer of two topics never sees what an aggregate did behind an event that waits: not in the other topic either, and not through another relay's lanes.
func TestAnEventThatWaitsStopsItsAggregateInAllTopics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	small, wide := f.topic(t, name("small"), 3, "max.message.bytes", "5000"), f.topic(t, name("wide"), 3)
	cfg := relay.Config{Policies: []relay.Policy{{ParkScope: relay.ScopeAggregate}}}
	shares(t, f.start(t, cfg), f.start(t, cfg))
	// The aggregate is the Order of the key's name, the key of the other topic another one.
	before := f.insert(t, wide, "o1", `{"n":1}`)
	f.awaitPublished(t)
	root := f.insert(t, small, "o1", oversized(2))
	f.awaitParked(t, 1)
	follower, behind := f.insert(t, wide, "o1", `{"n":3}`), f.insert(t, small, "o1", `{"n":4}`)
	other := []uuid.UUID{f.insert(t, wide, "o2", `{"n":5}`), f.insert(t, small, "o2", `{"n":6}`)}
	await.Until(t, "the other aggregate is published, and the key of the follower waits", func() bool {
		return f.pending(t) == 3 && f.count(t, "SELECT count(*) FROM outbox.parked_key WHERE event_id = $1 AND code = $2", follower, relay.CodeAggregateParked) == 1
	})
	f.wantKeys(t, wide, map[string][]uuid.UUID{"o1": {before}, "o2": other[:1]})
	f.wantKeys(t, small, map[string][]uuid.UUID{"o2": other[1:]})

	f.setLimit(t, small, "100000")
	if out, errs, code := f.outbox(t, "keys", "unpark", "--topic", small, "--key", "o1"); code != 0 {
		t.Fatalf("unpark: %d\n%s%s", code, out, errs)
	}
	f.awaitPublished(t)
	f.awaitParked(t, 0)
	f.wantKeys(t, wide, map[string][]uuid.UUID{"o1": {before, follower}, "o2": other[:1]})
	f.wantKeys(t, small, map[string][]uuid.UUID{"o1": {root, behind}, "o2": other[1:]})
}

// wantKeys wants the topic to hold these events of its keys, in this order, each once.
func (f *fixture) wantKeys(t *testing.T, topic string, want map[string][]uuid.UUID) {
	t.Helper()
	got, repeats := kafkatest.ByKey(f.records(t, topic))
	kafkatest.Compare(t, topic, got, want)
	if repeats != 0 {
		t.Errorf("%d records of %s came twice", repeats, topic)
	}
}
