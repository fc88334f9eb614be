//go:build integration

package kafka_test

import (
	"encoding/json"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// shares waits until the engines have all eight lanes between them, each a fair share.
func shares(t *testing.T, engines ...*engine) {
	t.Helper()
	await.Until(t, "every lane is shared out", func() bool {
		sum, fair := 0, relay.Share(8, len(engines))
		for _, e := range engines {
			n := e.Stats().Lanes
			if n > fair || n == 0 {
				return false
			}
			sum += n
		}
		return sum == 8
	})
}

// inOrder fails the test unless the numbers of each key rise in the topic.
func inOrder(t *testing.T, records []*kgo.Record) {
	t.Helper()
	last := map[string]int{}
	for _, r := range records {
		var payload struct{ N int }
		if err := json.Unmarshal(r.Value, &payload); err != nil {
			t.Fatal(err)
		}
		if n := last[string(r.Key)]; payload.N <= n {
			t.Errorf("key %s: number %d came after %d", r.Key, payload.N, n)
		}
		last[string(r.Key)] = payload.N
	}
}

// Relays come and go while writers work: lanes move among them all the time, and nobody can tell from the topic.
func TestLanesMoveBetweenRelaysUnderLoad(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]postgres.SettleMode{"mark": postgres.Mark, "delete": postgres.Delete} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.settle = mode
			topic := f.topic(t, "test-service.share-"+name+".events", 6)
			stop := f.writing(t, topic)
			first := f.start(t, relay.Config{})
			shares(t, first)
			for range 3 {
				second := f.start(t, relay.Config{})
				shares(t, first, second)
				third := f.start(t, relay.Config{})
				shares(t, first, second, third)
				for _, e := range []*engine{first, second, third} {
					before := e.Stats().Published
					await.Until(t, "each of them publishes", func() bool { return e.Stats().Published > before+20 })
				}
				if err := first.stop(); err != nil {
					t.Errorf("stop: %v", err)
				}
				shares(t, second, third)
				if err := third.stop(); err != nil {
					t.Errorf("stop: %v", err)
				}
				shares(t, second)
				first = second
			}
			written := stop()
			await.Until(t, "everything is published", func() bool { return f.pending(t) == 0 })
			records := f.records(t, topic)
			if len(records) != written {
				t.Errorf("%d records of %d events: a lane that is handed over in peace costs no repetition", len(records), written)
			}
			inOrder(t, records)
		})
	}
}
