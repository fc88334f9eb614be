//go:build integration

package pooler_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devbouncer"
	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/relay"
)

// newFixtureOn uses a server that the test may stop.
func newFixtureOn(t *testing.T, server *devpg.Server) *fixture {
	t.Helper()
	db := &pgtest.DB{URL: server.URL("postgres"), Name: "postgres"}
	if _, err := migrate.Up(t.Context(), db.Conn(t), migrate.Config{}); err != nil {
		t.Fatal(err)
	}
	return &fixture{Bouncer: startBouncer(t, devbouncer.Options{Server: db.URL}), db: db, brokers: startBroker(t)}
}

// A paused pooler keeps its clients: after the restart their next statement is answered as if nothing had happened, by a server that may have
// given ids twice.
func TestARestartThatThePoolerHidesIsNoticed(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, devpg.Options{})
	f := newFixtureOn(t, server)
	e := f.start(t, f.url(), relay.Config{})
	f.insert(t, topic, "order-1")
	f.awaitAllPublished(t)
	f.command(t, "PAUSE")
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.insert(t, topic, "order-1")
	f.command(t, "RESUME")
	await.Until(t, "the relay notices that the server is another one", func() bool { return e.log.Says(relay.ErrServerChanged.Error()) })
	f.insert(t, topic, "order-1")
	f.awaitAllPublished(t)
	f.checkOrder(t)
}

func TestACrashOfTheServerBehindThePoolerLosesNothing(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, devpg.Options{})
	f := newFixtureOn(t, server)
	f.start(t, f.url(), relay.Config{LeaseTTL: 5 * time.Second})
	for round := range 3 {
		for i := range 20 {
			f.insert(t, topic, keyName(i%3))
		}
		if round == 2 {
			break
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.awaitAllPublished(t)
	f.checkOrder(t)
}

func TestACrashOfThePoolerLosesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{})
	e := f.start(t, f.url(), relay.Config{LeaseTTL: 5 * time.Second})
	committed, stop := writing(t, newPool(t, f.db.URL))
	for range 3 {
		before := e.Stats().Settled
		await.Until(t, "the relay works", func() bool { return e.Stats().Settled > before || t.Failed() })
		f.Kill()
		more := committed.Load() + 50
		await.Until(t, "events are written without the pooler", func() bool { return committed.Load() >= more || t.Failed() })
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	f.awaitAllPublished(t)
	f.checkOrder(t)
}

// A pooler that reconnects, as its operator may tell it to at any time, ends no session of a client.
func TestReconnectsOfThePoolerGoUnnoticed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{})
	e := f.start(t, f.url(), relay.Config{})
	committed, stop := writing(t, f.pool(t, "exec"))
	for range 5 {
		more := committed.Load() + 50
		await.Until(t, "events are written", func() bool { return committed.Load() >= more || t.Failed() })
		f.command(t, "RECONNECT")
	}
	stop()
	f.awaitAllPublished(t)
	f.checkOrder(t)
	if err := e.Stats().LastError; err != nil {
		t.Errorf("a term ended with: %v", err)
	}
}

// A pooler that ends idle clients must not end a term: the first event after a quiet time would be late, and the lease would be gone.
func TestAQuietTimeEndsNoSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{Params: map[string]string{"client_idle_timeout": "20"}})
	e := f.start(t, f.url(), relay.Config{})
	f.insert(t, topic, "order-1")
	f.awaitAllPublished(t)
	idle := connect(t, f.url()+"&application_name=idle")
	await.Until(t, "the pooler ends an idle client", func() bool { return !f.knows(t, idle) })
	f.insert(t, topic, "order-1")
	f.awaitAllPublished(t)
	f.checkOrder(t)
	if err := e.Stats().LastError; err != nil || e.log.Says("relay interrupted") {
		t.Errorf("a term ended; last error: %v", err)
	}
}

// knows tells whether the connection, which says nothing, is one of the bouncer's.
func (f *fixture) knows(t *testing.T, c *pgx.Conn) bool {
	t.Helper()
	return slices.ContainsFunc(f.command(t, "SHOW CLIENTS"), func(client map[string]string) bool {
		return client["application_name"] == c.Config().RuntimeParams["application_name"]
	})
}
