//go:build integration

package pooler_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/outbox-relay/outbox/internal/devbouncer"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// Each statement may come to another session, so nothing but an open transaction keeps one run away from the other.
func TestPartitionsArePrunedByOneRunAtATimeBehindThePooler(t *testing.T) {
	t.Parallel()
	for _, version := range []string{old, recent} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, devbouncer.Options{Version: version}, pgtest.Empty)
			f.db.Exec(t, `
CREATE TABLE outbox_event (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id uuid NOT NULL, aggregate_type text NOT NULL, aggregate_id text NOT NULL, event_type text NOT NULL,
    payload jsonb NOT NULL, topic text NOT NULL, partition_key text NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz, UNIQUE (event_id, id)
) PARTITION BY RANGE (id);
CREATE INDEX ix_outbox_event_unpublished ON outbox_event (id) WHERE published_at IS NULL;
CREATE TABLE outbox_event_p1 PARTITION OF outbox_event FOR VALUES FROM (1) TO (101);
CREATE TABLE outbox_event_p101 PARTITION OF outbox_event FOR VALUES FROM (101) TO (201);
CREATE TABLE outbox_event_p201 PARTITION OF outbox_event FOR VALUES FROM (201) TO (301);`)
			f.run(t, "ready", "migrate", "up")
			f.db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, published_at)
SELECT gen_random_uuid(), 'Order', g::text, 'order.changed.v1', '{}', 'shop.order', g::text, now() - interval '3 hours' FROM generate_series(1, 250) g`)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if out, errs, code := f.outbox(t, "prune", "--partitions", "--older-than", "1h", "--ahead", "2", "--yes"); code != 0 {
						t.Errorf("prune ended with %d: %s%s", code, out, errs)
					}
				})
			}
			wg.Wait()
			names := queryOne[string](t, f.db.URL, "SELECT string_agg(inhrelid::regclass::text, ' ' ORDER BY inhrelid) FROM pg_inherits WHERE inhparent = 'outbox_event'::regclass")
			if want := "outbox_event_p201 outbox_event_p301 outbox_event_p401"; names != want {
				t.Errorf("the partitions are %s, want %s", names, want)
			}
			if left := queryOne[string](t, f.db.URL, "SELECT coalesce(string_agg(mode, ' '), '') FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); strings.TrimSpace(left) != "" {
				t.Errorf("advisory locks are left: %s", left)
			}
		})
	}
}
