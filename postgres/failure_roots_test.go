package postgres

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/relay"
)

// acking is a publisher whose broker takes everything at once.
type acking struct{ calls sync.WaitGroup }

func (*acking) Open(context.Context) error { return nil }
func (p *acking) Publish(events []*relay.Event, done func(*relay.Event, error)) {
	p.calls.Go(func() {
		for _, e := range events {
			done(e, nil)
		}
	})
}
func (*acking) CheckTopics(context.Context, []string) (map[string]error, error) { return nil, nil }
func (*acking) MaxDelay() time.Duration                                         { return time.Second }
func (*acking) SilentFrom(time.Time)                                            {}
func (p *acking) Destroy()                                                      { p.calls.Wait() }

// parkRoots parks so many keys, each for the sake of an aggregate of its own.
func parkRoots(t *testing.T, db *pgxpool.Pool, n int) {
	t.Helper()
	s := openScoped(t, db)
	c := claim(t, s, owner("parks"))
	for from := 0; from < n; from += largestBatch {
		keys := make([]relay.Key, min(largestBatch, n-from))
		for i := range keys {
			keys[i] = relay.Key{Topic: "stock", PartitionKey: fmt.Sprint("key ", from+i)}
		}
		rows := make([]relay.ParkedKey, len(keys))
		for i, ref := range insertKeys(t, db, keys) {
			rows[i] = root(keys[i], ref, fmt.Sprint("aggregate ", from+i))
		}
		if gone, err := s.Park(t.Context(), c, rows); err != nil || len(gone) > 0 {
			t.Fatalf("Park = %v, %v", gone, err)
		}
	}
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "ANALYZE outbox_event, outbox.parked_key")
}

// cost is what a relay takes to start, to learn which aggregates are stopped, and to publish.
type cost struct {
	took  time.Duration
	bytes uint64
}

// heap is what lives after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// relayBeside publishes events of other aggregates while these roots stand.
func relayBeside(t *testing.T, roots int) (c cost) {
	t.Helper()
	db := newDatabase(t)
	parkRoots(t, db, roots)
	const events = 2000
	insert(t, db, orders, events)
	s, err := New(db, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	r, err := relay.New(s, &acking{}, relay.Config{Policies: []relay.Policy{{ParkScope: relay.ScopeAggregate}}})
	if err != nil {
		t.Fatal(err)
	}
	before, began := heap(), time.Now()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	eventually(t, "all others are published", func() bool { return r.Stats().Settled == events })
	c.took = time.Since(began)
	if after := heap(); after > before {
		c.bytes = after - before
	}
	same(t, "parked keys", r.Stats().ParkedKeys, roots)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	same(t, "unpublished", queryOne[int](t, db, `SELECT count(*) FROM outbox_event WHERE published_at IS NULL`), roots)
	return c
}

// A hundred times as many stopped aggregates cost a hundred times as much at most, in memory and in time, of which twice as much is let pass for the machine's other work: what does
// not grow with them is in both. Anything that looks at each root for each of the others would be far above that.
func TestStoppedAggregatesCostNoMoreThanTheirNumber(t *testing.T) {
	few, many := relayBeside(t, 1_000), relayBeside(t, 100_000)
	t.Logf("1,000 roots: %s, %d kB; 100,000: %s, %d kB", few.took, few.bytes>>10, many.took, many.bytes>>10)
	const times = 100
	if many.took > 2*times*few.took {
		t.Errorf("100,000 roots took %s, 1,000 %s", many.took, few.took)
	}
	if many.bytes > times*max(few.bytes, 1<<20) {
		t.Errorf("100,000 roots hold %d bytes, 1,000 %d", many.bytes, few.bytes)
	}
}
