package postgres

import (
	"sync/atomic"
	"testing"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres/retention"
	"github.com/outbox-relay/outbox/relay"
)

// A reader and a settler work on while partitions come and go: each event is read once, and marked.
func TestPartitionsComeAndGoWhileARelayWorks(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..51")
	s := openSource(t, db, Config{})
	claim(t, s, owner("a"))
	if err := s.Start(t.Context(), nobodyHeld{}, allLanes); err != nil {
		t.Fatal(err)
	}
	var dropped atomic.Int64
	stop, ended := make(chan struct{}), make(chan struct{})
	o, err := retention.NewPruner(db, "")
	if err != nil {
		t.Fatal(err)
	}
	request := operate.Prune{Partitions: &operate.PrunePartitions{Ahead: 8}}
	if _, err := o.Prune(t.Context(), request, nil); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			pruned, err := o.Prune(t.Context(), request, nil)
			if err != nil {
				t.Error(err)
				return
			}
			dropped.Add(int64(len(pruned.Dropped)))
		}
	}()
	const rounds, each = 30, 20
	read := map[int64]bool{}
	take := func() {
		b, err := s.Read(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		var refs []relay.Ref
		for _, e := range b.Events {
			if read[e.ID] {
				t.Errorf("event %d is read twice", e.ID)
			}
			read[e.ID] = true
			refs = append(refs, relay.Ref{ID: e.ID, EventID: e.EventID})
		}
		if len(refs) > 0 {
			same(t, "settled", settle(t, s, refs), len(refs))
		}
	}
	written := 0
	for range rounds {
		written += len(insert(t, db, orders, each))
		take()
		// A partition ahead has to be there for the next round.
		eventually(t, "there is room", func() bool {
			return queryOne[bool](t, db, `SELECT count(*) >= 2 FROM pg_class WHERE relispartition AND relkind = 'r' AND
    (regexp_match(pg_get_expr(relpartbound, oid), 'FROM \(''([0-9]+)''\)'))[1]::bigint > (SELECT last_value FROM outbox_event_id_seq)`)
		})
	}
	eventually(t, "all are read", func() bool { take(); return len(read) == written })
	eventually(t, "most partitions are dropped", func() bool { return dropped.Load() >= rounds*each/50/2 })
	close(stop)
	<-ended
	same(t, "unpublished", queryOne[int](t, db, `SELECT count(*) FROM outbox_event WHERE published_at IS NULL`), 0)
}
