//go:build integration

package pooler_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/cli"
	"github.com/outbox-relay/outbox/internal/devbouncer"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// old knows no prepared statements across transactions; recent keeps account of them.
const old, recent = "1.18", "1.24"

// fixture is a database of its own, a bouncer in front of it, and a broker.
type fixture struct {
	*devbouncer.Bouncer
	db      *pgtest.DB
	brokers []string
}

const topic = "shop.order"

func newFixture(t *testing.T, o devbouncer.Options, opts ...pgtest.Option) *fixture {
	t.Helper()
	db := pgtest.New(t, opts...)
	o.Server = db.URL
	return &fixture{Bouncer: startBouncer(t, o), db: db, brokers: startBroker(t)}
}

func startBouncer(t *testing.T, o devbouncer.Options) *devbouncer.Bouncer {
	t.Helper()
	if o.Version == "" {
		o.Version = old
	}
	b, err := devbouncer.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("this test needs PgBouncer: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Cleanup(); err != nil {
			t.Errorf("remove the bouncer: %v", err)
		}
	})
	return b
}

func startBroker(t *testing.T) []string {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	return broker.ListenAddrs()
}

// command runs a command of the admin console.
func (f *fixture) command(t *testing.T, command string) []map[string]string {
	t.Helper()
	rows, err := f.Command(t.Context(), command)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// url leads to the test's database through the bouncer.
func (f *fixture) url() string { return f.URL(f.db.Name) }

// pool leads through the bouncer; mode is a value of default_query_exec_mode.
func (f *fixture) pool(t *testing.T, mode string) *pgxpool.Pool {
	t.Helper()
	return newPool(t, f.url()+"&default_query_exec_mode="+mode)
}

func newPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 10
	p, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// engine is a running relay in this process.
type engine struct {
	*relay.Relay
	log  *await.Journal
	stop func()
}

// start runs a relay over the URL until the test ends or stop is called.
func (f *fixture) start(t *testing.T, url string, cfg relay.Config) *engine {
	t.Helper()
	log := &await.Journal{Out: t.Output()}
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	source, err := postgres.New(newPool(t, url), postgres.Config{Logger: cfg.Logger})
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: f.brokers, LeaseTTL: cfg.LeaseTTL, Logger: cfg.Logger})
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
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the relay ended with: %v", err)
		}
	})
	t.Cleanup(stop)
	return &engine{r, log, stop}
}

// outbox runs a command through the bouncer, with the least of settings.
func (f *fixture) outbox(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return f.outboxAt(t, f.url(), args...)
}

func (f *fixture) outboxAt(t *testing.T, url string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	var out, errs bytes.Buffer
	code = cli.Run(ctx, args, strings.NewReader(""), &out, &errs, []string{"DATABASE_URL=" + url, "KAFKA_BROKERS=" + strings.Join(f.brokers, ",")})
	return out.String(), errs.String(), code
}

// queryOne asks the server itself.
func queryOne[T any](t *testing.T, url, sql string, args ...any) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	var v T
	if err := c.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func (f *fixture) awaitAllPublished(t *testing.T) {
	t.Helper()
	await.Until(t, "everything is published", func() bool {
		return queryOne[int](t, f.db.URL, "SELECT count(*) FROM outbox_event WHERE published_at IS NULL") == 0
	})
}

const insertSQL = `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES (gen_random_uuid(), 'Order', $2, 'order.changed.v1', '{}', $1, $2) RETURNING event_id`

// insert commits one event, not through the bouncer.
func (f *fixture) insert(t *testing.T, topic, key string) uuid.UUID {
	t.Helper()
	return queryOne[uuid.UUID](t, f.db.URL, insertSQL, topic, key)
}

func keyName(i int) string { return fmt.Sprintf("order-%d", i) }
