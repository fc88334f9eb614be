//go:build integration

package pooler_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/outbox-relay/outbox/internal/devbouncer"
)

// Three competing relays share two connections to the server: each holds one while Kafka is asked, and its registration needs one too.
func TestCompetingRelaysPublishEachEventOnceThroughThePooler(t *testing.T) {
	t.Parallel()
	for _, version := range []string{old, recent} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, devbouncer.Options{Version: version, PoolSize: 2})
			const events = 600
			for i := range events {
				f.insert(t, topic, keyName(i%20))
			}
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if out, errs, code := f.outbox(t, "relay", "--once", "--mode", "competing"); code != 0 {
						t.Errorf("exit code %d: %s%s", code, out, errs)
					}
				})
			}
			wg.Wait()
			f.awaitAllPublished(t)
			seen := map[string]int{}
			for _, r := range f.records(t) {
				seen[string(r.Headers[0].Value)]++
			}
			if got, want := fmt.Sprint(len(seen), " of ", len(f.records(t))), fmt.Sprint(events, " of ", events); got != want {
				t.Errorf("different events of records: %s, want %s", got, want)
			}
		})
	}
}
