//go:build integration && unix

package upgrade_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// shop is a database whose events are published to a topic of its own.
type shop struct {
	db    *pgtest.DB
	pool  *pgxpool.Pool
	topic string
	// close ends the writers and returns when their last transactions have ended.
	close func()
}

func newShop(t *testing.T, opts ...pgtest.Option) *shop {
	t.Helper()
	s := &shop{db: pgtest.New(t, opts...), topic: "test-service.upgrade." + uuid.NewString()[:8]}
	s.pool = s.db.Pool(t)
	if err := devkafka.CreateTopic(t.Context(), brokers, s.topic, 6, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	writers = 4
	// keysEach are the keys of one writer, which nobody else writes to: so the order of their ids is that of their commits.
	keysEach = 25
	// pace is the pause between two transactions of a writer.
	pace = 5 * time.Millisecond
)

// open has services write events until close is called or the test ends.
func (s *shop) open(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	s.close = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(s.close)
	for w := range writers {
		wg.Go(func() {
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("order-%d-%d", w, n%keysEach)
				// Not by ctx: whether a transaction that is cut off was committed would not be known here.
				_, err := s.pool.Exec(context.Background(), `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES (gen_random_uuid(), 'Order', $2, 'order.changed.v1', jsonb_build_object('n', $3::int), $1, $2)`, s.topic, key, n)
				if err != nil {
					t.Errorf("write an event: %v", err)
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
}

// scan returns what a query of one value gives.
func scan[T any](t *testing.T, s *shop, sql string, args ...any) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	var v T
	if err := s.pool.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// version is the newest migration that is applied.
func (s *shop) version(t *testing.T) int {
	t.Helper()
	return scan[int](t, s, "SELECT max(version) FROM outbox.migration")
}

// awaitFlow waits until everything that is written by now is settled, and about as much of each key that is written from now on.
func (s *shop) awaitFlow(t *testing.T) {
	t.Helper()
	last := scan[int64](t, s, "SELECT coalesce(max(id), 0) FROM outbox_event") + 2*writers*keysEach
	await.Until(t, fmt.Sprintf("all events up to %d are settled", last), func() bool {
		return scan[bool](t, s, `SELECT coalesce(max(id), 0) > $1 AND NOT EXISTS (SELECT FROM outbox_event WHERE id <= $1 AND published_at IS NULL) FROM outbox_event`, last)
	})
}

// awaitOwners waits until the lanes are shared evenly by exactly the relays of these names.
func (s *shop) awaitOwners(t *testing.T, names ...string) {
	t.Helper()
	await.Until(t, fmt.Sprintf("the lanes are shared by %v", names), func() bool {
		return scan[bool](t, s, `
SELECT bool_and(a.name IS NOT NULL AND a.lanes = a.share) AND array(SELECT unnest($1::text[]) n ORDER BY n) = array_agg(a.name ORDER BY a.name)
FROM (SELECT r.name, count(*) lanes, sum(count(*)) OVER () / count(*) OVER () share
    FROM outbox.lane l LEFT JOIN outbox.relay r USING (source, owner) GROUP BY r.name) a`, names)
	})
}

// judge ends the writers and fails the test unless all events arrived, once, in the order of their keys.
func (s *shop) judge(t *testing.T) {
	t.Helper()
	s.close()
	await.Until(t, "everything is settled", func() bool {
		return !scan[bool](t, s, "SELECT EXISTS (SELECT FROM outbox_event WHERE published_at IS NULL)")
	})
	records := kafkatest.Records(t, brokers, s.topic)
	got, repeats := kafkatest.ByKey(records)
	kafkatest.Compare(t, s.topic, got, kafkatest.InTable(t, s.pool, s.topic))
	if repeats != 0 {
		t.Errorf("%d events came twice, and every relay was stopped cleanly", repeats)
	}
	if n := scan[int](t, s, "SELECT count(*) FROM outbox.parked_key"); n != 0 {
		t.Errorf("%d keys are parked", n)
	}
	t.Logf("%d events of %d keys", len(records), len(got))
}
