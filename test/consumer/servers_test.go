//go:build integration && unix

package consumer_test

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/test/chaos/proxy"
)

// ground is servers that belong to one test, with a proxy in front of the database.
type ground struct {
	kafka    *devkafka.Cluster
	database *devpg.Server
	way      *proxy.Proxy
}

func newGround(t *testing.T) *ground {
	t.Helper()
	server := pgtest.Server(t, devpg.Options{})
	way, err := proxy.Listen(net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Up(t.Context(), conn, migrate.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &ground{database: server, way: way}
}

// through is the database's address by way of the proxy.
func (g *ground) through(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(g.database.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	u.Host = g.way.Addr()
	return u.String()
}

func (g *ground) pool(t *testing.T, address string) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Brokers are killed, stopped and frozen, leaders and with them the group's coordinator move, the database is stopped, killed, cut off and slow, and members are killed
// as well, until everything is handled and each of it has happened. The seed decides who assigns partitions.
func TestEachEffectIsThereOnceWhateverBecomesOfTheServers(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	s := []setup{{Batch: 1}, {Batch: 50, NextGen: true}}[seed%2]
	t.Log(s.how())
	g := newGround(t)
	cluster, err := devkafka.Start(t.Context(), devkafka.Options{Nodes: 3, Config: shortSessions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	g.kafka = cluster
	s.URL, s.Brokers = g.through(t), cluster.Brokers()
	f := newFlow(t, s, seed, g.pool(t, g.database.URL("postgres")), number(t, "OUTBOX_TEST_CONSUMER_EVENTS", 20_000))
	f.faults = append(g.faults(), killMember)
	f.least = len(f.faults)
	f.run(t)
	f.pool = g.pool(t, g.database.URL("postgres")) // the connections of before are gone
	f.judge(t)
}

// faults happen one at a time, and are over when they return.
func (g *ground) faults() []func(*flow, *testing.T) {
	node := func(f *flow) *devkafka.Node { return g.kafka.Nodes()[f.random.IntN(len(g.kafka.Nodes()))] }
	return []func(*flow, *testing.T){
		func(f *flow, t *testing.T) {
			n := node(f)
			f.during(t, "broker killed", n.Kill, func() error { return n.Restart(t.Context()) })
		},
		func(f *flow, t *testing.T) {
			n := node(f)
			f.during(t, "broker stopped", n.Stop, func() error { return n.Restart(t.Context()) })
		},
		func(f *flow, t *testing.T) { n := node(f); f.during(t, "broker frozen", n.Pause, n.Continue) },
		func(f *flow, t *testing.T) {
			f.during(t, "leaders moved", func() error { return f.moveLeaders(t) }, nothing)
		},
		func(f *flow, t *testing.T) {
			f.during(t, "database stopped", func() error { return g.database.Stop(t.Context()) }, func() error { return g.database.Start(t.Context()) })
		},
		func(f *flow, t *testing.T) {
			f.during(t, "database killed", g.database.Kill, func() error { return g.database.Start(t.Context()) })
		},
		func(f *flow, t *testing.T) { f.during(t, "database silent", does(g.way.Cut), does(g.way.Heal)) },
		func(f *flow, t *testing.T) {
			f.during(t, "database cut off", does(g.way.Cut), does(g.way.Reset, g.way.Heal))
		},
		func(f *flow, t *testing.T) {
			f.during(t, "the database's answers held", does(func() { g.way.Hold(proxy.Down) }), does(g.way.Reset, g.way.Heal))
		},
		func(f *flow, t *testing.T) {
			f.during(t, "database slow", does(func() { g.way.Slow(50 * time.Millisecond) }), does(g.way.Heal))
		},
	}
}

func nothing() error { return nil }

func does(steps ...func()) func() error {
	return func() error {
		for _, step := range steps {
			step()
		}
		return nil
	}
}

// during does something, and after a while what undoes it.
func (f *flow) during(t *testing.T, what string, begin, end func() error) {
	t.Helper()
	d := time.Duration(100+f.random.IntN(4000)) * time.Millisecond
	t.Logf("%s for %s", what, d)
	if err := begin(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	<-time.After(d)
	if err := end(); err != nil {
		t.Fatalf("%s, to end it: %v", what, err)
	}
}

// moveLeaders has the next replica lead each partition, those of the group's coordinator too.
func (f *flow) moveLeaders(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), 2*await.Limit)
	defer cancel()
	admin := kadm.NewClient(f.client)
	topics, err := admin.ListTopicsWithInternal(ctx, f.Topic, "__consumer_offsets")
	if err != nil {
		return err
	}
	var move kadm.AlterPartitionAssignmentsReq
	var set kadm.TopicsSet
	topics.EachPartition(func(p kadm.PartitionDetail) {
		if len(p.Replicas) > 1 {
			move.Assign(p.Topic, p.Partition, append(p.Replicas[1:len(p.Replicas):len(p.Replicas)], p.Replicas[0]))
			set.Add(p.Topic, p.Partition)
		}
	})
	if _, err := admin.AlterPartitionAssignments(ctx, move); err != nil {
		t.Logf("the leaders stay: %v", err)
		return nil
	}
	await.Until(t, "the leaders are elected", func() bool {
		_, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
		return err == nil
	})
	return nil
}
