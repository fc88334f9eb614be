package competing_test

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/competing"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
)

// topic exists in every world.
const topic = "order-service.order.confirmed"

// world is a database and a cluster.
type world struct {
	t       *testing.T
	db      *pgxpool.Pool
	cluster *kfake.Cluster
}

func newWorld(t *testing.T, opts ...pgtest.Option) *world {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &world{t, pgtest.New(t, opts...).Pool(t), c}
}

// relay makes a competing relay that tries again soon.
func (w *world) relay(cfg competing.Config) *competing.Relay {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	source, err := postgres.NewCompeting(w.db, postgres.Config{Logger: log})
	if err != nil {
		w.t.Fatal(err)
	}
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: w.cluster.ListenAddrs(), LeaseTTL: cfg.LeaseTTL, Logger: log})
	if err != nil {
		w.t.Fatal(err)
	}
	if cfg.RetryInterval == 0 {
		cfg.RetryInterval = 20 * time.Millisecond
	}
	if cfg.TopicCheckInterval == 0 {
		cfg.TopicCheckInterval = 20 * time.Millisecond
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = time.Minute
	}
	r, err := competing.New(source, publisher, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// start runs a relay until the function that it returns is called, or the test ends; a clean end is wanted.
func (w *world) start(r *competing.Relay) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run = %v", err)
		}
	}
	w.t.Cleanup(stop)
	return stop
}

// insert writes n events of a key and returns their event ids.
func (w *world) insert(to, key string, n int) []uuid.UUID {
	w.t.Helper()
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
		w.insertOne(ids[i], to, key, `{"n": `+strconv.Itoa(i)+`}`)
	}
	return ids
}

func (w *world) insertOne(id uuid.UUID, to, key, payload string) {
	w.t.Helper()
	w.exec(`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		VALUES ($1, 'Order', $3, 'order.confirmed.v1', $4::text::jsonb, $2, $3)`, id, to, key, payload)
}

// fill writes n events over many keys in one statement.
func (w *world) fill(n int) {
	w.t.Helper()
	w.exec(`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		SELECT gen_random_uuid(), 'Order', 'o', 'order.confirmed.v1', jsonb_build_object('n', i), $2, 'order-' || i % 100 FROM generate_series(1, $1::int) i`, n, topic)
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.db.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (w *world) unpublished() int {
	return w.count(`SELECT count(*) FROM outbox_event WHERE published_at IS NULL`)
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	await.Until(w.t, what, ok)
}

func (w *world) client(opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.cluster.ListenAddrs()...)}, opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.Close)
	return cl
}

func (w *world) records(of string) []*kgo.Record {
	w.t.Helper()
	return kafkatest.Records(w.t, w.cluster.ListenAddrs(), of)
}

// eventID is the record's header x-event-id.
func eventID(r *kgo.Record) string { return string(r.Headers[0].Value) }

// times counts the records of each event.
func (w *world) times(of string) map[string]int {
	w.t.Helper()
	seen := map[string]int{}
	for _, r := range w.records(of) {
		seen[eventID(r)]++
	}
	return seen
}

// wantOnce checks that every row is published, and its event exactly once in Kafka.
func (w *world) wantOnce(seen map[string]int) {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), `SELECT event_id::text, published_at IS NOT NULL FROM outbox_event`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var id string
		var published bool
		if err := rows.Scan(&id, &published); err != nil {
			w.t.Fatal(err)
		}
		n++
		if !published || seen[id] != 1 {
			w.t.Errorf("event %s: published %v, %d times in Kafka", id, published, seen[id])
		}
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	if n != len(seen) {
		w.t.Errorf("%d rows, %d different events in Kafka", n, len(seen))
	}
}

func (w *world) createTopic(name string) {
	w.t.Helper()
	if _, err := kadm.NewClient(w.client()).CreateTopic(w.t.Context(), 3, 1, nil, name); err != nil {
		w.t.Fatalf("create topic: %v", err)
	}
}
