//go:build integration

package kafka_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// fixture is a database of its own with an outbox table, and brokers.
type fixture struct {
	db      *pgtest.DB
	pool    *pgxpool.Pool
	brokers []string
	// access is how its relays reach the brokers; without brokers of its own, those above.
	access kafka.Config
	// settle is how its relays settle.
	settle postgres.SettleMode
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db := pgtest.New(t)
	return &fixture{db: db, pool: db.Pool(t), brokers: brokers}
}

// newFixtureOn uses a server that the test may stop.
func newFixtureOn(t *testing.T, server *devpg.Server) *fixture {
	t.Helper()
	f := &fixture{db: &pgtest.DB{URL: server.URL("postgres")}, brokers: brokers}
	if _, err := migrate.Up(t.Context(), f.db.Conn(t), migrate.Config{}); err != nil {
		t.Fatal(err)
	}
	f.pool = f.db.Pool(t)
	return f
}

// topic makes a topic of the given number of partitions; config holds pairs of name and value.
func (f *fixture) topic(t *testing.T, name string, partitions int32, config ...string) string {
	t.Helper()
	settings := map[string]*string{}
	for i := 0; i < len(config); i += 2 {
		settings[config[i]] = &config[i+1]
	}
	admin := f.admin(t)
	if _, err := admin.CreateTopic(t.Context(), partitions, -1, settings, name); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	// The broker answers before it has told itself. A relay that publishes for the first time ends for want of the topic.
	await.Until(t, "the topic is there", func() bool {
		found, err := admin.ListTopics(t.Context(), name)
		return err == nil && found[name].Err == nil && len(found[name].Partitions) == int(partitions) &&
			!slices.ContainsFunc(found[name].Partitions.Sorted(), func(p kadm.PartitionDetail) bool { return p.Err != nil || p.Leader < 0 })
	})
	return name
}

// name makes a topic's name that no other test has.
func name(part string) string { return "test-service." + part + "." + uuid.NewString()[:8] }

func (f *fixture) admin(t *testing.T) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.brokers...), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// engine is a running relay in this process.
type engine struct {
	*relay.Relay
	log  *await.Journal
	stop func() error
}

// start runs a relay until the test ends or stop is called.
func (f *fixture) start(t *testing.T, cfg relay.Config) *engine {
	t.Helper()
	said := &await.Journal{Out: t.Output()}
	log := slog.New(slog.NewTextHandler(said, nil))
	cfg.Logger = log
	source, err := postgres.New(f.pool, postgres.Config{Logger: log, Settle: f.settle})
	if err != nil {
		t.Fatal(err)
	}
	access := f.access
	access.LeaseTTL, access.Logger = cfg.LeaseTTL, log
	if access.Brokers == nil {
		access.Brokers = f.brokers
	}
	publisher, err := kafka.NewPublisher(access)
	if err != nil {
		t.Fatal(err)
	}
	r, err := relay.New(source, publisher, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	var result error
	stop := func() error {
		once.Do(func() {
			cancel()
			result = <-done
		})
		return result
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Logf("the relay ended with: %v", err)
		}
	})
	return &engine{r, said, stop}
}

// count returns the result of a counting query.
func (f *fixture) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	var n int
	if err := f.pool.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (f *fixture) pending(t *testing.T) int {
	t.Helper()
	return f.count(t, "SELECT count(*) FROM outbox_event WHERE published_at IS NULL")
}

// insert commits one event and returns its id.
func (f *fixture) insert(t *testing.T, topic, key, payload string) uuid.UUID {
	t.Helper()
	id, err := f.tryInsert(t.Context(), topic, key, payload)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (f *fixture) tryInsert(ctx context.Context, topic, key, payload string) (id uuid.UUID, err error) {
	const sql = `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES (gen_random_uuid(), 'Order', $2, 'order.changed.v1', $3::text::jsonb, $1, $2) RETURNING event_id`
	err = f.pool.QueryRow(ctx, sql, topic, key, payload).Scan(&id)
	return id, err
}

// compareOrder fails the test unless the topic holds, for each key, exactly the events of the table in the order of their ids.
func (f *fixture) compareOrder(t *testing.T, topic string) (repeats int) {
	t.Helper()
	got, repeats := kafkatest.ByKey(f.records(t, topic))
	kafkatest.Compare(t, topic, got, kafkatest.InTable(t, f.pool, topic))
	return repeats
}

func (f *fixture) records(t *testing.T, topic string) []*kgo.Record {
	t.Helper()
	return kafkatest.Records(t, f.brokers, topic)
}

// everyRowArrivedInOrder fails the test unless the rows of each key are in the topic in the order of their ids. The topic may hold more: events
// that the server has forgotten after they were published.
func (f *fixture) everyRowArrivedInOrder(t *testing.T, topic string) {
	t.Helper()
	got, _ := kafkatest.ByKey(f.records(t, topic))
	for key, want := range kafkatest.InTable(t, f.pool, topic) {
		kept := slices.DeleteFunc(got[key], func(id uuid.UUID) bool { return !slices.Contains(want, id) })
		if !slices.Equal(kept, want) {
			t.Errorf("key %q of topic %s\ngot  %v\nwant %v", key, topic, kept, want)
		}
	}
}

var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "outbox-bin-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "outbox")
	out, err := exec.Command("go", "build", "-o", bin, "../../cmd/outbox").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build outbox: %w\n%s", err, out)
	}
	return bin, nil
})

// outbox runs the command as a user would, with the database and the brokers in its environment.
func (f *fixture) outbox(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	bin, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+f.db.URL, "KAFKA_BROKERS="+strings.Join(f.brokers, ","))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
