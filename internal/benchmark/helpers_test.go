package benchmark

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/kafka"
)

// world is a database and a cluster.
type world struct {
	db      *pgtest.DB
	pool    *pgxpool.Pool
	cluster *kfake.Cluster
}

func newWorld(t *testing.T, opts ...pgtest.Option) *world {
	t.Helper()
	db := pgtest.New(t, opts...)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return &world{db, db.Pool(t), cluster}
}

// config is that of a run as small as it can be.
func (w *world) config() Config {
	return Config{
		Pool: w.pool, Kafka: kafka.Config{Brokers: w.cluster.ListenAddrs(), CreateTopics: &kafka.TopicSpec{Partitions: 3}},
		Events: 300, Keys: 20, Size: 200, Rate: 50, Duration: time.Second,
	}
}

func (w *world) bench(t *testing.T, c Config) *Bench {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func (w *world) plan(t *testing.T, b *Bench) Plan {
	t.Helper()
	p, err := b.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// texts are the rows of a query of one text.
func (w *world) texts(t *testing.T, sql string) []string {
	t.Helper()
	rows, err := w.pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// traces are what a run has left on either side.
func (w *world) traces(t *testing.T) []string {
	t.Helper()
	found := w.texts(t, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'outbox%bench%'")
	if len(w.texts(t, "SELECT nspname FROM pg_namespace WHERE nspname = 'outbox'")) > 0 {
		found = append(found, w.texts(t, "SELECT 'source ' || table_schema FROM outbox.source WHERE table_schema <> 'public'")...)
	}
	return append(found, w.topics(t)...)
}

func (w *world) topics(t *testing.T) []string {
	t.Helper()
	s, err := kafka.NewScratch(kafka.Config{Brokers: w.cluster.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	names, err := s.Names(context.WithoutCancel(t.Context()), "outbox-")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// refuseDeletion makes the cluster refuse to delete any topic.
func (w *world) refuseDeletion(by *kerr.Error) {
	w.cluster.ControlKey(int16(kmsg.DeleteTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
		asked := req.(*kmsg.DeleteTopicsRequest)
		names := asked.TopicNames
		for _, topic := range asked.Topics {
			names = append(names, *topic.Topic)
		}
		for _, name := range names {
			refused := kmsg.NewDeleteTopicsResponseTopic()
			refused.Topic, refused.ErrorCode = kmsg.StringPtr(name), by.Code
			resp.Topics = append(resp.Topics, refused)
		}
		return resp, nil, true
	})
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
}
