//go:build integration && unix

package consumer_test

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/test/chaos/proxy"
)

// behindProxy has the consumers reach the database by way of a proxy; the test itself goes straight.
func (m *mailroom) behindProxy() *proxy.Proxy {
	m.Helper()
	u, err := url.Parse(m.url)
	if err != nil {
		m.Fatal(err)
	}
	way, err := proxy.Listen(net.JoinHostPort(u.Hostname(), u.Port()))
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(way.Close)
	u.Host = way.Addr()
	pool, err := pgxpool.New(m.Context(), u.String())
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(pool.Close)
	m.store = pool
	return way
}

// committedOffsets is the sum of what the group has committed of the topic; -1 when its broker does not answer.
func (m *mailroom) committedOffsets() (sum int64) {
	m.Helper()
	offsets, err := kadm.NewClient(m.client).FetchOffsets(m.Context(), m.group)
	if err != nil {
		m.Log(err)
		return -1
	}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == m.topic {
			sum += max(o.At, 0)
		}
	})
	return sum
}

// The server commits, and the way back is lost: nobody knows of it until the event comes again, and is a repeat. That is the fault of no record.
func TestACommitWhoseAnswerIsLostHasItsEffectOnce(t *testing.T) {
	t.Parallel()
	m := newMailroom(t)
	way := m.behindProxy()
	var armed, held atomic.Bool
	m.first = func(_ context.Context, e inbox.Event[paid]) error {
		armed.Store(e.Payload.Seq == 20)
		return nil
	}
	way.Watch(func(d proxy.Direction, data []byte) {
		if d == proxy.Up && bytes.Contains(data, []byte("commit")) && armed.Load() && held.CompareAndSwap(false, true) {
			way.Hold(proxy.Down)
		}
	})
	c, _ := m.consume(func(cfg *kafka.ConsumerConfig) { cfg.Run.Workers = 1 })
	m.into(0, 0, 50)
	await.Until(t, "the server has committed, and the answer is held", func() bool {
		return held.Load() && m.count(`SELECT count(*) FROM effect WHERE seq = 20`) == 1
	})
	way.Reset()
	way.Heal()
	await.Until(t, "all is handled", func() bool { s := c.Stats(); return s.Handled+s.Repeats == 50 })
	if n, s := m.count(effects), c.Stats(); n != 50 || s.Repeats != 1 || s.Failures != 0 {
		t.Errorf("%d effects of 50 events, %+v; want one repeat and no failure", n, s)
	}
}

// While the database is away nothing is handled and no attempt is spent, what was handled before is committed in Kafka, and the consumer stays in its group.
func TestADatabaseThatIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		leave, comeBack func(*ground, context.Context) error
	}{
		"stopped": {func(g *ground, ctx context.Context) error { return g.database.Stop(ctx) }, func(g *ground, ctx context.Context) error { return g.database.Start(ctx) }},
		"killed":  {func(g *ground, _ context.Context) error { return g.database.Kill() }, func(g *ground, ctx context.Context) error { return g.database.Start(ctx) }},
		"refusing": {
			func(g *ground, _ context.Context) error { g.way.Refuse(); g.way.Reset(); return nil },
			func(g *ground, _ context.Context) error { g.way.Heal(); return nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t)
			m := newMailroom(t)
			m.pool, m.store, m.url = g.pool(t, g.database.URL("postgres")), g.pool(t, g.through(t)), g.database.URL("postgres")
			if _, err := m.pool.Exec(t.Context(), effectTable); err != nil {
				t.Fatal(err)
			}
			// The handlers are in the middle of their work when it happens.
			var once sync.Once
			atWork, gone := make(chan struct{}), make(chan struct{})
			m.first = func(_ context.Context, e inbox.Event[paid]) error {
				if e.Payload.Seq >= 100 {
					once.Do(func() { close(atWork) })
					<-gone
				}
				return nil
			}
			m.into(0, 0, 100)
			c, _ := m.consume(func(cfg *kafka.ConsumerConfig) { cfg.Run.CommitInterval = 50 * time.Millisecond })
			await.Until(t, "the first ones are handled", func() bool { return c.Stats().Handled == 100 })
			m.into(0, 100, 200)
			<-atWork
			if err := fault.leave(g, t.Context()); err != nil {
				t.Fatal(err)
			}
			close(gone)
			await.Until(t, "the database is missed", func() bool { return c.Stats().Unavailable })
			await.Until(t, "what was handled before is committed", func() bool { return m.committedOffsets() == 100 })
			if err := fault.comeBack(g, t.Context()); err != nil {
				t.Fatal(err)
			}
			m.pool = g.pool(t, m.url) // the connections of before are gone
			await.Until(t, "all is handled", func() bool { s := c.Stats(); return s.Handled+s.Repeats == 200 })
			await.Until(t, "all is committed", func() bool { return m.committedOffsets() == 200 })
			if s := c.Stats(); s.Failures != 0 || s.DeadLettered != 0 {
				t.Errorf("attempts were spent: %+v", s)
			}
			if n, wrong := m.count(effects), m.count(outOfOrder); n != 200 || wrong != 0 {
				t.Errorf("%d effects of 200 events, %d out of their account's order", n, wrong)
			}
		})
	}
}
