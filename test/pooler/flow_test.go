//go:build integration

package pooler_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devbouncer"
	"github.com/outbox-relay/outbox/relay"
)

// Two connections to the server are shared by four relays, each with five sessions, and by the writers (BL-092).
func TestFourRelaysAndTheWritersShareTwoConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version, mode string
		params        map[string]string
	}{
		{old, "exec", nil},
		{old, "simple_protocol", nil},
		{recent, "cache_statement", map[string]string{"max_prepared_statements": "100"}},
		{recent, "exec", map[string]string{"max_prepared_statements": "0"}},
	} {
		t.Run(c.version+" "+c.mode, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, devbouncer.Options{Version: c.version, PoolSize: 2, Params: c.params})
			// The relays are not told how to send statements.
			for i := range 4 {
				f.start(t, f.url(), relay.Config{Name: fmt.Sprint("relay ", i)})
			}
			committed, stop := writing(t, f.pool(t, c.mode))
			await.Until(t, "500 events are written", func() bool { return committed.Load() >= 500 || t.Failed() })
			stop()
			f.awaitAllPublished(t)
			f.checkOrder(t)
		})
	}
}

// With one connection any call of the relay that waited for another one while it holds a transaction would wait for ever.
func TestOneConnectionIsEnoughForAllOfARelay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{PoolSize: 1})
	e := f.start(t, f.url(), relay.Config{})
	committed, stop := writing(t, newPool(t, f.db.URL))
	await.Until(t, "500 events are written", func() bool { return committed.Load() >= 500 || t.Failed() })
	stop()
	f.awaitAllPublished(t)
	f.checkOrder(t)
	if n := e.Stats().SweepFinds; n != 0 {
		t.Errorf("the sweep found %d events that the reader had lost", n)
	}
	if n := queryOne[int](t, f.db.URL, "SELECT count(DISTINCT pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'outbox-relay'"); n > 1 {
		t.Errorf("the relay has %d sessions with the server, want 1", n)
	}
}

// The writer's session with the server is one that the relay's statements used a moment before: it must not be taken for the relay's own.
func TestALongWriterIsWaitedForAndHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{PoolSize: 2})
	f.start(t, f.url(), relay.Config{})
	pool := f.pool(t, "exec")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := outbox.Write(t.Context(), tx, event("slow")); err != nil {
		t.Fatal(err)
	}
	const others = 50
	for i := range others {
		f.insert(t, topic, keyName(i))
	}
	await.Until(t, "the others are published", func() bool {
		return queryOne[int](t, f.db.URL, "SELECT count(*) FROM outbox_event WHERE published_at IS NOT NULL") == others
	})
	// A second event of its key, in the same transaction, and one more that is written by another as soon as it can.
	if _, err := outbox.Write(t.Context(), tx, event("slow")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.insert(t, topic, "slow")
	f.awaitAllPublished(t)
	f.checkOrder(t)
}

// What the tests above rely on: this bouncer does break what is prepared, and the product tells what to do about it.
func TestStatementsPreparedByAServiceBreakAndTheRemedyIsKnown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{PoolSize: 1})
	first, second := connect(t, f.url()), connect(t, f.url())
	err := errorOf(t, first, second)
	if err == nil {
		t.Fatal("two clients prepared the same statement in one session, and nothing broke")
	}
	wantRemedy(t, err, "default_query_exec_mode=exec")
	if err := errorOf(t, connect(t, f.url()+"&default_query_exec_mode=exec"), connect(t, f.url()+"&default_query_exec_mode=exec")); err != nil {
		t.Errorf("with the remedy: %v", err)
	}
}

// errorOf writes an event over each connection.
func errorOf(t *testing.T, conns ...*pgx.Conn) error {
	t.Helper()
	for _, c := range conns {
		err := pgx.BeginFunc(t.Context(), c, func(tx pgx.Tx) error {
			_, err := outbox.Write(t.Context(), tx, event("order-1"))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}
