//go:build integration && unix

package chaos_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/test/chaos/broken"
	"github.com/outbox-relay/outbox/test/chaos/history"
)

const (
	// waitLimit is how long the laboratory waits for what must come; it is no measure of anything.
	waitLimit = 4 * time.Minute
	// leaseTTL is the shortest that a relay takes.
	leaseTTL = 5 * time.Second
	// maxConnections of the PostgreSQL server.
	maxConnections = 70
)

// setup is what a laboratory is made of. The zero value is one healthy relay, one broker, two topics.
type setup struct {
	nodes, relays, topics, keys int
	build                       string
	args                        []string
	// shifted gives the relays a wall clock that can be wrong.
	shifted bool
	// deletes makes the relays delete what they settle.
	deletes bool
	// topicConfig is for every topic.
	topicConfig map[string]string
}

// lab is a database and topics of their own, relays, and what is known of them.
type lab struct {
	t        *testing.T
	dir      string
	server   *devpg.Server
	database string
	pool     *pgxpool.Pool
	cluster  *cluster
	topics   []string
	streams  []history.Stream
	relays   []*relayProcess
	ledger   *ledger
	deletes  bool

	mu     sync.Mutex
	faults []*history.Fault
}

// newLab prepares everything and starts nothing.
func newLab(t *testing.T, s setup) *lab {
	t.Helper()
	s.nodes, s.relays, s.topics, s.keys = max(s.nodes, 1), max(s.relays, 1), max(s.topics, 1), max(s.keys, 1)
	if s.build == "" {
		s.build = healthy
	}
	switch {
	case s.shifted && s.build == healthy:
		s.build = broken.Shifted
	case s.shifted:
		s.build = broken.Shifted + "+" + s.build
	}
	l := &lab{t: t, server: shared.database(t), cluster: shared.cluster(t, s.nodes), ledger: &ledger{}, deletes: s.deletes}
	l.dir = filepath.Join(shared.dir, strings.ReplaceAll(t.Name(), "/", "-"))
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := l.cluster.mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.cluster.heal)
	l.makeDatabase()
	l.makeTopics(s)
	if s.deletes {
		s.args = append(s.args, "--settle", "delete")
	}
	for slot := range s.relays {
		l.relays = append(l.relays, l.newRelay(slot, s.build, s.args...))
	}
	return l
}

func (l *lab) makeDatabase() {
	l.t.Helper()
	l.database = "chaos_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	l.exec("postgres", "CREATE DATABASE "+l.database)
	conn := l.connect(l.database)
	defer conn.Close(context.Background())
	if _, err := migrate.Up(l.t.Context(), conn, migrate.Config{}); err != nil {
		l.t.Fatal(err)
	}
	l.exec(l.database, schemaSQL)
	var err error
	if l.pool, err = openPool(context.Background(), l.server.URL(l.database)); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(l.pool.Close)
}

func (l *lab) makeTopics(s setup) {
	l.t.Helper()
	// The broker's clock, and not that of the producer: a record that was held up for long must not look old.
	config := map[string]string{"message.timestamp.type": "LogAppendTime"}
	for name, value := range s.topicConfig {
		config[name] = value
	}
	for i := range s.topics {
		topic := fmt.Sprintf("%s.topic-%d", l.database, i)
		if err := devkafka.CreateTopic(l.t.Context(), l.cluster.Brokers(), topic, 4, config); err != nil {
			l.t.Fatal(err)
		}
		l.topics = append(l.topics, topic)
		for k := range s.keys {
			l.addStream(history.Stream{Topic: topic, Key: fmt.Sprintf("order-%d", k)})
		}
	}
}

func (l *lab) addStream(s history.Stream) history.Stream {
	l.t.Helper()
	l.exec(l.database, "INSERT INTO orders (topic, key) VALUES ($1, $2)", s.Topic, s.Key)
	l.streams = append(l.streams, s)
	return s
}

// connect goes to the server directly, past all proxies. The caller closes the connection.
func (l *lab) connect(database string) *pgx.Conn {
	l.t.Helper()
	cfg, err := pgx.ParseConfig(l.server.URL(database))
	if err != nil {
		l.t.Fatal(err)
	}
	cfg.RuntimeParams["application_name"] = "laboratory"
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		l.t.Fatalf("connect to %s: %v", database, err)
	}
	return conn
}

func (l *lab) exec(database, sql string, args ...any) {
	l.t.Helper()
	conn := l.connect(database)
	defer conn.Close(context.Background())
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
}

// count returns the result of a counting query; -1 while the database is away.
func (l *lab) count(sql string, args ...any) int {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	n := -1
	if err := l.pool.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
		return -1
	}
	return n
}

func (l *lab) unpublished() int {
	return l.count("SELECT count(*) FROM outbox_event WHERE published_at IS NULL")
}

// poll returns whether what holds before the limit is over.
func poll(limit time.Duration, holds func() bool) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			return false
		case <-tick.C:
		}
	}
	return true
}

// await polls until what holds, and fails the test when it never does.
func (l *lab) await(what string, holds func() bool) {
	l.t.Helper()
	if !poll(waitLimit, holds) {
		for _, r := range l.relays {
			l.t.Logf("%s says:\n%s", r.name(), r.said.tail(15))
		}
		l.t.Fatalf("waited in vain: %s", what)
	}
}

// begin writes a fault down, that begins now or has begun at its From; over tells that everything is as before.
func (l *lab) begin(f history.Fault) (over func()) {
	if f.From.IsZero() {
		f.From = time.Now()
	}
	f.Until = f.From.Add(time.Hour)
	fault := &f
	l.mu.Lock()
	l.faults = append(l.faults, fault)
	l.mu.Unlock()
	l.t.Logf("%s  fault begins: %s", f.From.UTC().Format("15:04:05.000"), f.What)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		fault.Until = time.Now()
		l.t.Logf("%s  fault is over: %s", fault.Until.UTC().Format("15:04:05.000"), f.What)
	}
}
