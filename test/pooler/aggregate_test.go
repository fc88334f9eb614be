//go:build integration

package pooler_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devbouncer"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/relay"
)

// Stopped aggregates, their keys' rows and what lets them go on again, through one session that everything shares.
func TestAnEventThatWaitsStopsItsAggregateThroughThePooler(t *testing.T) {
	t.Parallel()
	for _, version := range []string{old, recent} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, devbouncer.Options{Version: version, PoolSize: 1})
			f.makeTopic(t, smallTopic, "5000")
			f.start(t, f.url(), relay.Config{Policies: []relay.Policy{{ParkScope: relay.ScopeAggregate}}})
			// Each key stands for an aggregate of its name; the keys of the other topic wait for them.
			const keys = 20
			stuck := f.insertStuck(t, smallTopic, keys)
			f.awaitCount(t, "the keys are parked", keys, parkedSQL)
			for i := range keys {
				f.insert(t, topic, fmt.Sprint("k", i))
			}
			free := f.insert(t, topic, "free")
			f.awaitCount(t, "the keys of the other topic wait", 2*keys, parkedSQL)
			f.run(t, relay.CodeAggregateParked, "keys", "list")
			await.Until(t, "an aggregate that nothing stops is published", func() bool {
				return queryOne[bool](t, f.db.URL, "SELECT published_at IS NOT NULL FROM outbox_event WHERE event_id = $1", free)
			})
			f.raise(t, smallTopic)
			f.run(t, fmt.Sprintf("unpark: %[1]d of %[1]d done", keys), "keys", "unpark", "--topic", smallTopic, "--yes")
			f.awaitAllPublished(t)
			f.awaitCount(t, "no key is parked", 0, parkedSQL)
			for name, want := range map[string]map[string][]uuid.UUID{smallTopic: stuck, topic: kafkatest.InTable(t, f.db.Conn(t), topic)} {
				got, repeats := kafkatest.ByKey(kafkatest.Records(t, f.brokers, name))
				kafkatest.Compare(t, name, got, want)
				if repeats != 0 {
					t.Errorf("%d records of %s came twice", repeats, name)
				}
			}
		})
	}
}
