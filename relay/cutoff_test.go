package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// brokers keep what was published, by key.
type brokers struct {
	mu      sync.Mutex
	records map[relay.Key][]int64
}

// link is a relay's way to the brokers. While it is cut nothing is answered, and what was handed over may land as long as delay after the client was destroyed.
type link struct {
	*brokers
	mu      sync.Mutex
	isCut   bool
	pending []func()
}

const delay = time.Second

var errCut = &relay.PublishError{Class: relay.ClassUnknown, Code: "CUT", Err: errors.New("cut off")}

func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = cut
}

func (l *link) Open(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		return &relay.PublishError{Class: relay.ClassOutage, Code: "CUT", Err: errors.New("cut off")}
	}
	return nil
}

func (l *link) Publish(events []*relay.Event, done func(*relay.Event, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cut := l.isCut
	if cut {
		l.pending = append(l.pending, func() {
			time.AfterFunc(delay-100*time.Millisecond, func() { l.land(events) })
			for _, e := range events {
				done(e, errCut)
			}
		})
		return
	}
	l.land(events)
	for _, e := range events {
		done(e, nil)
	}
}

func (b *brokers) land(events []*relay.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range events {
		b.records[e.Key()] = append(b.records[e.Key()], e.ID)
	}
}

func (l *link) CheckTopics(ctx context.Context, topics []string) (map[string]error, error) {
	return map[string]error{}, l.Open(ctx)
}

func (l *link) MaxDelay() time.Duration { return delay }

func (l *link) SilentFrom(time.Time) {}

func (l *link) Destroy() {
	l.mu.Lock()
	pending := l.pending
	l.pending = nil
	l.mu.Unlock()
	for _, give := range pending {
		give()
	}
}

// onDatabase starts a relay on a real database.
func onDatabase(t *testing.T, pool *pgxpool.Pool, l *link) *relay.Relay {
	t.Helper()
	source, err := postgres.New(pool, postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := relay.New(source, l, relay.Config{LeaseTTL: 6 * time.Second, StallTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return r
}

func TestOnADatabaseARelayThatIsCutOffLeavesItsLanesAndTakesThemAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	kafka := &brokers{records: map[relay.Key][]int64{}}
	a, b := &link{brokers: kafka}, &link{brokers: kafka}
	ra, rb := onDatabase(t, pool, a), onDatabase(t, pool, b)
	// write goes on until something holds: both have something to publish all the time.
	n := 0
	write := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(await.Limit); !holds(); n++ {
			if time.Now().After(deadline) {
				t.Fatalf("not %s: lanes %d and %d", what, ra.Stats().Lanes, rb.Stats().Lanes)
			}
			_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES (gen_random_uuid(), 'Order', '1', 'order.changed.v1', '{}', 'orders', $1)`, fmt.Sprint("key ", n%40))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	shared := func() bool { return ra.Stats().Lanes == 4 && rb.Stats().Lanes == 4 }
	write("shared", shared)
	a.setCut(true)
	write("all the other's", func() bool { return rb.Stats().Lanes == 8 })
	write("nothing of the one that is cut off", func() bool { return ra.Stats().Lanes == 0 })
	a.setCut(false)
	write("shared again", shared)
	pending := func() (left int) {
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_event WHERE published_at IS NULL`).Scan(&left); err != nil {
			t.Fatal(err)
		}
		return left
	}
	await.Until(t, "all is published", func() bool { return pending() == 0 })
	kafka.check(t, n)
}

// check wants every event, the first records of a key in order, and no older event behind the newest.
func (b *brokers) check(t *testing.T, n int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	arrived := 0
	for key, ids := range b.records {
		var firsts []int64
		for _, id := range ids {
			if !slices.Contains(firsts, id) {
				firsts = append(firsts, id)
			}
		}
		arrived += len(firsts)
		if !slices.IsSorted(firsts) || ids[len(ids)-1] != firsts[len(firsts)-1] {
			t.Errorf("records of %v: events %v", key, ids)
		}
	}
	if arrived != n {
		t.Errorf("%d of %d events arrived", arrived, n)
	}
}
