package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/devport"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// broken is a source in trouble beside a healthy one.
type broken struct {
	table   table
	cluster *kfake.Cluster
	// broker is where it listens, at that port; a cluster that was closed does not say so any more.
	broker string
	port   int
	// topic is where its events go to.
	topic string
	// elsewhere is a database of the same server that stays open.
	elsewhere *pgtest.DB
	// role, when not "", is the one by which its relay connects.
	role string
}

// shut lets nobody into the database and ends who is in.
func (b *broken) shut(t *testing.T) {
	b.elsewhere.Exec(t, fmt.Sprintf(`ALTER DATABASE %q ALLOW_CONNECTIONS false`, b.table.db.Name))
	b.elsewhere.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, b.table.db.Name)
}

func (b *broken) reopen(t *testing.T) {
	b.elsewhere.Exec(t, fmt.Sprintf(`ALTER DATABASE %q ALLOW_CONNECTIONS true`, b.table.db.Name))
}

// stopBroker ends its Kafka.
func (b *broken) stopBroker(*testing.T) { b.cluster.Close() }

// startBroker makes another one at the same address.
func (b *broken) startBroker(t *testing.T) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.Ports(b.port), kfake.SeedTopics(3, b.topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
}

func (b *broken) createTopic(t *testing.T) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.broker))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 3, 1, nil, b.topic); err != nil {
		t.Fatal(err)
	}
}

func (b *broken) rename(from, to string) func(*testing.T) {
	return func(t *testing.T) { b.table.db.Exec(t, fmt.Sprintf("ALTER TABLE %s RENAME TO %s", from, to)) }
}

// forbid takes the right to log in from the role of the relay, and its sessions.
func (b *broken) forbid(t *testing.T) {
	b.elsewhere.Exec(t, fmt.Sprintf("ALTER ROLE %s NOLOGIN", b.role))
	b.elsewhere.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", b.role)
}

func (b *broken) allow(t *testing.T) {
	b.elsewhere.Exec(t, fmt.Sprintf("ALTER ROLE %s LOGIN", b.role))
}

// steal gives its leases to nobody, for a while.
func (b *broken) steal(t *testing.T) {
	b.table.db.Exec(t, "UPDATE outbox.lane SET owner = gen_random_uuid(), epoch = epoch + 1, expires_at = clock_timestamp() + interval '1 hour'")
}

func (b *broken) giveBack(t *testing.T) {
	b.table.db.Exec(t, "UPDATE outbox.lane SET owner = NULL, expires_at = NULL")
}

// fault is what happens to the broken source, and its end.
type fault struct {
	strike, mend func(*testing.T)
	writing      writing
}

// writing tells what services can do while the fault lasts.
type writing int

const (
	// impossible: the table cannot be reached.
	impossible writing = iota
	// needed: without an event nobody notices.
	needed
	// possible: events that are written after the fault was noticed wait for its end.
	possible
)

func (b *broken) faults() map[string]fault {
	return map[string]fault{
		"its database is away":             {b.shut, b.reopen, impossible},
		"its table is renamed":             {b.rename("outbox_event", "gone"), b.rename("gone", "outbox_event"), impossible},
		"its role may not log in any more": {b.forbid, b.allow, possible},
		"its lease is taken":               {b.steal, b.giveBack, possible},
		"its brokers are away":             {b.stopBroker, b.startBroker, needed},
		"its topic is missing":             {func(*testing.T) {}, b.createTopic, needed},
	}
}

func TestAFaultOfOneSourceTouchesNoOtherAndPasses(t *testing.T) {
	t.Parallel()
	for name := range (&broken{}).faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sufferFault(t, name)
		})
	}
}

func sufferFault(t *testing.T, name string) {
	healthy := table{pgtest.New(t), "outbox_event"}
	b := &broken{table: table{pgtest.New(t), "outbox_event"}, topic: "shop.bill", elsewhere: healthy.db}
	var seeded []string
	if name != "its topic is missing" {
		seeded = append(seeded, b.topic)
	}
	// A record that goes elsewhere first: the topic of a source that never published must exist.
	var err error
	if b.port, err = devport.One(); err != nil {
		t.Fatal(err)
	}
	if b.cluster, err = kfake.NewCluster(kfake.Ports(b.port), kfake.SeedTopics(3, append(seeded, "shop.first")...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.cluster.Close)
	b.broker = b.cluster.ListenAddrs()[0]
	well := newCluster(t, "shop.order")
	address := b.table.db.URL
	if name == "its role may not log in any more" {
		b.role = "relay_" + strings.ReplaceAll(strings.ToLower(b.table.db.Name), "-", "_")
		b.elsewhere.Exec(t, fmt.Sprintf("CREATE ROLE %s SUPERUSER LOGIN PASSWORD 'x'", b.role))
		t.Cleanup(func() { dropRole(t, b) })
		address = asRole(t, address, b.role)
	}
	fleet := fleetOf(t,
		config.Source{Name: "bills", DatabaseURL: address, Brokers: []string{b.broker}, LeaseTTL: 5 * time.Second},
		config.Source{Name: "orders", DatabaseURL: healthy.db.URL, Brokers: well.ListenAddrs(), LeaseTTL: time.Minute})
	atWork(t, fleet)
	b.table.write(t, "shop.first", 1)
	await.Until(t, "the source works", b.table.allPublished(t))
	await.Until(t, "the healthy source works", isReady(fleet, 1))
	engine := fleet.States()[1].Engine

	fault := b.faults()[name]
	fault.strike(t)
	if fault.writing == needed {
		b.table.write(t, b.topic, 10)
	}
	await.Until(t, "the trouble is felt", func() bool { return troubled(fleet.States()[0]) })
	if fault.writing == possible {
		b.table.write(t, b.topic, 10)
	}
	for range 3 {
		healthy.write(t, "shop.order", 10)
		await.Until(t, "the healthy source goes on", healthy.allPublished(t))
	}
	if s := fleet.States()[1]; s.Engine != engine || sourceReady(s) != nil || s.Engine.Stats().LastError != nil {
		t.Errorf("the healthy source has felt it: %v", sourceReady(s))
	}
	if fault.writing != impossible {
		if n := b.table.unpublished(t); n != 10 {
			t.Errorf("%d events wait, want 10", n)
		}
	}
	fault.mend(t)
	b.table.write(t, b.topic, 10)
	await.Until(t, "the source has recovered", b.table.allPublished(t))
	await.Until(t, "it is ready", isReady(fleet, 0))
}

// troubled tells that the source does not publish and knows it.
func troubled(s sourceState) bool {
	stats := s.Engine.Stats()
	return sourceReady(s) != nil || stats.Waiting != "" || stats.Outstanding > 0 || len(stats.HeldTopics) > 0
}

// asRole makes the connection string that of another role, with the password that dropRole's role has.
func asRole(t *testing.T, address, role string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "x")
	return u.String()
}

// dropRole runs when the relay has stopped.
func dropRole(t *testing.T, b *broken) {
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, b.elsewhere.URL)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "DROP ROLE "+b.role); err != nil {
		t.Error(err)
	}
}

func TestAStopHandsTheOtherSourcesOverThoughOneCannotDrain(t *testing.T) {
	t.Parallel()
	healthy := table{pgtest.New(t), "outbox_event"}
	b := &broken{table: table{pgtest.New(t), "outbox_event"}, topic: "shop.bill", elsewhere: healthy.db}
	b.cluster = newCluster(t, b.topic)
	b.broker = b.cluster.ListenAddrs()[0]
	fleet := fleetOf(t,
		config.Source{Name: "bills", DatabaseURL: b.table.db.URL, Brokers: []string{b.broker}, LeaseTTL: time.Minute, DrainTimeout: time.Second},
		config.Source{Name: "orders", DatabaseURL: healthy.db.URL, Brokers: newCluster(t, "shop.order").ListenAddrs(), LeaseTTL: time.Minute})
	stop := atWork(t, fleet)
	b.table.write(t, b.topic, 1)
	await.Until(t, "the source works", b.table.allPublished(t))
	await.Until(t, "the healthy source works", isReady(fleet, 1))
	b.stopBroker(t)
	b.table.write(t, b.topic, 3)
	await.Until(t, "three events are outstanding", func() bool { return fleet.States()[0].Engine.Stats().Outstanding > 0 })
	healthy.write(t, "shop.order", 100)
	await.Until(t, "the healthy source is published", healthy.allPublished(t))

	err := sourceErrors(stop(), true)
	if err == nil || exitCode(err) != exitFailed || !strings.HasPrefix(err.Error(), "source bills: stopped with ") || strings.Contains(err.Error(), "source orders") {
		t.Errorf("got %v", err)
	}
	if n := leased(t, healthy); n != 0 {
		t.Errorf("%d lanes of the healthy source are still leased", n)
	}
	if n := b.table.unpublished(t); n != 3 {
		t.Errorf("%d events are unpublished, want 3", n)
	}
}

// leased counts the lanes that somebody holds.
func leased(t *testing.T, tb table) (n int) {
	t.Helper()
	if err := tb.db.Conn(t).QueryRow(t.Context(), "SELECT count(*) FROM outbox.lane WHERE owner IS NOT NULL").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
