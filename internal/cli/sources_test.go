package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/relay"
)

// table is an outbox table of a test.
type table struct {
	db   *pgtest.DB
	name string
}

// write commits n events of one key.
func (tb table) write(t *testing.T, topic string, n int) {
	t.Helper()
	tb.db.Exec(t, fmt.Sprintf(`INSERT INTO %s (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', '%s', 'k' FROM generate_series(1, %d)`, tb.name, topic, n))
}

// unpublished counts over a connection of the server's own administrator, so that the database may be shut.
func (tb table) unpublished(t *testing.T) (n int) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, tb.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM "+tb.name+" WHERE published_at IS NULL").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (tb table) allPublished(t *testing.T) func() bool {
	return func() bool { return tb.unpublished(t) == 0 }
}

func newCluster(t *testing.T, topics ...string) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// atWork runs the fleet until the test ends, or until the returned function is called.
func atWork(t *testing.T, fleet *relayFleet) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- fleet.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func isReady(fleet *relayFleet, source int) func() bool {
	return func() bool { return sourceReady(fleet.States()[source]) == nil }
}

// delivered returns how many records of the topic each event has in Kafka.
func delivered(t *testing.T, cluster *kfake.Cluster, topic string) map[string]int {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	ends.Each(func(o kadm.ListedOffset) { want += int(o.Offset) })
	got := map[string]int{}
	for seen := 0; seen < want; {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			seen++
			for _, h := range r.Headers {
				if h.Key == "x-event-id" {
					got[string(h.Value)]++
				}
			}
		})
	}
	return got
}

func wantOnce(t *testing.T, got map[string]int, events int) {
	t.Helper()
	for id, n := range got {
		if n != 1 {
			t.Errorf("event %s has %d records", id, n)
		}
	}
	if len(got) != events {
		t.Errorf("%d events are in Kafka, want %d", len(got), events)
	}
}

func TestTwoTablesInOneDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "CREATE SCHEMA billing")
	if _, err := migrate.Up(t.Context(), db.Conn(t), migrate.Config{Table: "billing.outbox_event"}); err != nil {
		t.Fatal(err)
	}
	cluster := newCluster(t, "shop.order", "shop.invoice")
	orders, billing := table{db, "public.outbox_event"}, table{db, "billing.outbox_event"}
	fleet := fleetOf(t,
		config.Source{Name: "orders", DatabaseURL: db.URL, Table: orders.name, Brokers: cluster.ListenAddrs()},
		config.Source{Name: "billing", DatabaseURL: db.URL, Table: billing.name, Brokers: cluster.ListenAddrs(), Settle: "delete"})
	orders.write(t, "shop.order", 300)
	billing.write(t, "shop.invoice", 200)
	stop := atWork(t, fleet)
	await.Until(t, "the orders are published", orders.allPublished(t))
	await.Until(t, "the invoices are published", billing.allPublished(t))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	wantOnce(t, delivered(t, cluster, "shop.order"), 300)
	wantOnce(t, delivered(t, cluster, "shop.invoice"), 200)
	for i, want := range []int64{300, 200} {
		if got := fleet.States()[i].Engine.Stats().Settled; got != want {
			t.Errorf("source %d has settled %d events, want %d", i, got, want)
		}
	}
}

func TestTwoDatabasesWithTheSameTableAndTopicOnOneCluster(t *testing.T) {
	t.Parallel()
	one, two := table{pgtest.New(t), "outbox_event"}, table{pgtest.New(t), "outbox_event"}
	cluster := newCluster(t, "shop.order")
	fleet := fleetOf(t,
		config.Source{Name: "one", DatabaseURL: one.db.URL, Brokers: cluster.ListenAddrs()},
		config.Source{Name: "two", DatabaseURL: two.db.URL, Brokers: cluster.ListenAddrs()})
	stop := atWork(t, fleet)
	for range 5 {
		one.write(t, "shop.order", 20)
		two.write(t, "shop.order", 30)
	}
	await.Until(t, "one is published", one.allPublished(t))
	await.Until(t, "two is published", two.allPublished(t))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	wantOnce(t, delivered(t, cluster, "shop.order"), 250)
}

func TestASourceThatWasNeverMigratedComesUpWhenItIs(t *testing.T) {
	t.Parallel()
	good := table{pgtest.New(t), "outbox_event"}
	late := table{pgtest.New(t, pgtest.Empty), "outbox_event"}
	cluster := newCluster(t, "shop.order")
	fleet := fleetOf(t,
		config.Source{Name: "late", DatabaseURL: late.db.URL, Brokers: cluster.ListenAddrs()},
		config.Source{Name: "good", DatabaseURL: good.db.URL, Brokers: cluster.ListenAddrs()})
	atWork(t, fleet)
	await.Until(t, "the good source is ready", isReady(fleet, 1))
	await.Until(t, "the other one says why it is not", func() bool { return fleet.States()[0].Err != nil })
	if err := sourceReady(fleet.States()[0]); err == nil || !strings.Contains(err.Error(), "outbox migrate up") {
		t.Errorf("the reason is %v", err)
	}
	good.write(t, "shop.order", 10)
	await.Until(t, "its events are published", good.allPublished(t))
	if _, err := migrate.Up(t.Context(), late.db.Conn(t), migrate.Config{}); err != nil {
		t.Fatal(err)
	}
	late.write(t, "shop.order", 10)
	await.Until(t, "the events of the late source are published", late.allPublished(t))
	await.Until(t, "it is ready", isReady(fleet, 0))
}

func TestWithOneSourceAWrongConfigurationEndsTheProcess(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	fleet := fleetOf(t, config.Source{DatabaseURL: db.URL, Brokers: newCluster(t).ListenAddrs()})
	err := sourceErrors(fleet.Run(t.Context()), false)
	if !errors.Is(err, relay.ErrConfiguration) || strings.HasPrefix(err.Error(), "source ") {
		t.Errorf("got %v", err)
	}
}

func TestSourcesThatAreTheSameTableAreRefused(t *testing.T) {
	t.Parallel()
	brokers := []string{"h:1"}
	for name, c := range map[string]struct {
		one, two config.Source
		refused  bool
	}{
		"the same words":   {config.Source{DatabaseURL: "postgres://h/d", Table: "public.x"}, config.Source{DatabaseURL: "postgres://h/d", Table: "public.x"}, true},
		"other words":      {config.Source{DatabaseURL: "postgres://me@H:5432/d?sslmode=disable", Table: "x"}, config.Source{DatabaseURL: "host=h dbname=d user=you", Table: "public.x"}, true},
		"another table":    {config.Source{DatabaseURL: "postgres://h/d", Table: "public.x"}, config.Source{DatabaseURL: "postgres://h/d", Table: "public.X"}, false},
		"another database": {config.Source{DatabaseURL: "postgres://h/d"}, config.Source{DatabaseURL: "postgres://h/e"}, false},
		"another port":     {config.Source{DatabaseURL: "postgres://h/d"}, config.Source{DatabaseURL: "postgres://h:5433/d"}, false},
	} {
		c.one.Name, c.two.Name = "one", "two"
		sources := []config.Source{c.one, c.two}
		for i := range sources {
			sources[i].Brokers = brokers
			if sources[i].Table == "" {
				sources[i].Table = "outbox_event"
			}
		}
		parts, err := (&app{}).parts(t.Context(), &config.Config{Sources: sources}, nil, discard())
		closePools(parts)
		if refused := err != nil && strings.Contains(err.Error(), "is that of source one already"); refused != c.refused || !refused && err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A source whose table was mistyped has none that is known, and is no second one of the table that is there by default.
func TestASourceWithAMistypedTableIsNotTheSameAsAnother(t *testing.T) {
	t.Parallel()
	for mistyped, want := range map[string]string{"tabel: other": "did you mean table?", "table:": "table: want a text", "database-ulr: postgres://h/e": "did you mean database-url?"} {
		path := filepath.Join(t.TempDir(), "outbox.yaml")
		content := "brokers: h:1\ndatabase-url: postgres://h/d\nsources:\n- name: one\n- name: two\n  " + mistyped + "\n"
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got := runWith(t, nil, "config", "validate", path)
		if got.code != exitConfig || !strings.Contains(got.errs, want) || strings.Contains(got.errs, "already") {
			t.Errorf("%s: %d %s", mistyped, got.code, got.errs)
		}
	}
}
