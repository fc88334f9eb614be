//go:build integration

package kafka_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/relay"
)

type kadmAlter = kadm.AlterConfig

const kadmSet = kadm.SetConfig

// ownBroker gives the fixture a broker that the test may stop.
func (f *fixture) ownBroker(t *testing.T) *devkafka.Node {
	t.Helper()
	cluster, err := devkafka.Start(t.Context(), devkafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close() })
	f.brokers = cluster.Brokers()
	return cluster.Nodes()[0]
}

// writing inserts events of 20 keys, one after the other, until stopped.
func (f *fixture) writing(t *testing.T, topic string) (stop func() int) {
	t.Helper()
	return f.writingThe(t, topic, func(n int) (key, payload string) { return fmt.Sprintf("k%d", n%20), fmt.Sprintf(`{"n":%d}`, n) })
}

// writingThe inserts one event after the other, as event says of the first, second and so on, until stopped; stop returns how many.
func (f *fixture) writingThe(t *testing.T, topic string, event func(n int) (key, payload string)) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan int, 1)
	go func() {
		n := 0
		defer func() { written <- n }()
		for ctx.Err() == nil {
			n++
			key, payload := event(n)
			if _, err := f.tryInsert(context.WithoutCancel(ctx), topic, key, payload); err != nil {
				t.Errorf("write: %v", err)
				return
			}
			<-time.After(2 * time.Millisecond)
		}
	}()
	return sync.OnceValue(func() int {
		cancel()
		return <-written
	})
}

func TestABrokerThatDiesCostsNothing(t *testing.T) {
	f := newFixture(t)
	node := f.ownBroker(t)
	topic := f.topic(t, name("kill"), 6)
	e := f.start(t, relay.Config{})
	stop := f.writing(t, topic)
	await.Until(t, "events flow", func() bool { return e.Stats().Published > 50 })
	if err := node.Kill(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a backlog grows", func() bool { return f.pending(t) > 100 })
	f.noTransactionIsOpen(t)
	if err := node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	await.Until(t, "everything is published", func() bool { return f.pending(t) == 0 })
	if repeats := f.compareOrder(t, topic); repeats != 0 {
		t.Errorf("%d records came twice", repeats)
	}
	if err := e.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestABrokerThatNeverAnswersHoldsNoTransactionAndNoStop(t *testing.T) {
	f := newFixture(t)
	node := f.ownBroker(t)
	topic := f.topic(t, name("freeze"), 6)
	e := f.start(t, relay.Config{LeaseTTL: 8 * time.Second, StallTimeout: time.Second, DrainTimeout: 2 * time.Second})
	stop := f.writing(t, topic)
	await.Until(t, "events flow", func() bool { return e.Stats().Published > 50 })
	if err := node.Pause(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the relay says that it stalls", func() bool { return e.Stats().Stalled })
	f.noTransactionIsOpen(t)
	stop()
	stopped := time.Now()
	err := e.stop()
	t.Logf("stopped after %s: %v", time.Since(stopped).Round(time.Millisecond), err)
	if err := node.Continue(); err != nil {
		t.Fatal(err)
	}
	f.start(t, relay.Config{})
	await.Until(t, "everything is published", func() bool { return f.pending(t) == 0 })
	t.Logf("%d records came twice", f.compareOrder(t, topic))
}

// noTransactionIsOpen fails the test when a session of the relay holds a transaction or a row lock while Kafka is silent. One that renews a lease is seen in the middle
// of that, but not for long.
func (f *fixture) noTransactionIsOpen(t *testing.T) {
	t.Helper()
	await.Until(t, "no session of the relay is in a transaction", func() bool {
		return f.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'outbox-relay'
AND state <> 'active' AND xact_start IS NOT NULL`) == 0
	})
}

// A crash of a server whose writers do not wait for the disk loses what they committed last, ids included, and issues these ids again.
func TestAServerThatLosesIDsAndIssuesThemAgain(t *testing.T) {
	server := pgtest.Server(t, devpg.Options{Params: map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s"}})
	f := newFixtureOn(t, server)
	f.db.Exec(t, "CHECKPOINT") // the table is to survive
	topic := f.topic(t, name("reissue"), 6)
	e := f.start(t, relay.Config{})
	for round := range 3 {
		for n := range 200 {
			f.insert(t, topic, fmt.Sprintf("k%d", n%20), fmt.Sprintf(`{"round":%d,"n":%d}`, round, n))
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.pool.Reset()
	}
	for n := range 200 {
		f.insert(t, topic, fmt.Sprintf("k%d", n%20), fmt.Sprintf(`{"round":"last","n":%d}`, n))
	}
	await.Until(t, "everything is published", func() bool { return f.pending(t) == 0 })
	f.everyRowArrivedInOrder(t, topic)
	if err := e.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestATerminatedConnectionCostsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("terminate"), 6)
	e := f.start(t, relay.Config{})
	stop := f.writing(t, topic)
	for round := range 8 {
		before := e.Stats().Published
		await.Until(t, "events flow", func() bool { return e.Stats().Published > before+20 })
		f.db.Exec(t, `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'outbox-relay' ORDER BY pid OFFSET $1::int % 5 LIMIT 1) a`, round)
	}
	stop()
	await.Until(t, "everything is published", func() bool { return f.pending(t) == 0 })
	t.Logf("%d records came twice", f.compareOrder(t, topic))
}

func TestAStopHandsOverAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("handover"), 6)
	stop := f.writing(t, topic)
	e := f.start(t, relay.Config{})
	for range 5 {
		await.Until(t, "events flow", func() bool { return e.Stats().Published > 50 })
		next := f.start(t, relay.Config{})
		await.Until(t, "the next one has its share", func() bool { return next.Stats().Lanes == 4 && e.Stats().Lanes == 4 })
		if err := e.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		e = next
	}
	stop()
	await.Until(t, "everything is published", func() bool { return f.pending(t) == 0 })
	if repeats := f.compareOrder(t, topic); repeats != 0 {
		t.Errorf("%d records came twice", repeats)
	}
}
