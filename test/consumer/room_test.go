//go:build integration && unix

package consumer_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/cli"
	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/kafka"
)

const (
	effectTable = `CREATE TABLE effect (n bigserial, event_id text NOT NULL, account text NOT NULL, seq int NOT NULL)`
	effects     = `SELECT count(*) FROM effect`
	outOfOrder  = `SELECT count(*) FROM (SELECT seq, lag(seq) OVER (PARTITION BY account ORDER BY n) AS before FROM effect) e WHERE seq <= before`
)

// mailroom is a topic with its dead-letter topic, and consumers whose handler is broken until somebody mends it.
type mailroom struct {
	*testing.T
	url, topic, group string
	brokers           []string
	pool              *pgxpool.Pool
	// store is the consumers' pool, which may lead another way.
	store  *pgxpool.Pool
	client *kgo.Client
	mended atomic.Bool
	// journal is what the consumers have logged.
	journal await.Journal
	// first, when not nil, is run by the handler before it writes.
	first func(ctx context.Context, e inbox.Event[paid]) error
	// handlers, when not nil, are those of the consumers in place of handle.
	handlers *inbox.Handlers[pgx.Tx]
	config   inbox.Config
}

func newMailroom(t *testing.T) *mailroom {
	t.Helper()
	return newMailroomOn(t, brokers)
}

func newMailroomOn(t *testing.T, brokers []string) *mailroom {
	t.Helper()
	db := pgtest.New(t)
	db.Exec(t, effectTable)
	m := &mailroom{T: t, brokers: brokers, url: db.URL, pool: db.Pool(t), group: "mail-" + uuid.NewString()[:8], topic: "test-service.payment." + uuid.NewString()[:8]}
	for topic, n := range map[string]int32{m.topic: 3, m.topic + "-dlt": 2} {
		if err := devkafka.CreateTopic(t.Context(), brokers, topic, n, nil); err != nil {
			t.Fatal(err)
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	m.client = client
	store, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	store.MaxConns = 20 // two consumers, with a connection for each worker
	if m.store, err = pgxpool.NewWithConfig(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.store.Close)
	t.Cleanup(func() {
		if text := m.journal.Text(); t.Failed() {
			t.Logf("the consumers said, at last:\n%s", text[max(0, len(text)-8000):])
		}
	})
	return m
}

// consume handles until it is stopped, or the test ends.
func (m *mailroom) consume(options ...func(*kafka.ConsumerConfig)) (c *kafka.Consumer, stop func()) {
	m.Helper()
	handlers := m.handlers
	if handlers == nil {
		handlers = inbox.NewHandlers[pgx.Tx]()
		inbox.On(handlers, paidType, m.handle)
	}
	log := slog.New(slog.NewTextHandler(&m.journal, nil))
	cfgOfInbox := m.config
	cfgOfInbox.Logger = log
	p, err := inbox.NewProcessor(m.group, inbox.Pool(m.store), handlers, cfgOfInbox)
	if err != nil {
		m.Fatal(err)
	}
	cfg := kafka.ConsumerConfig{
		Config: kafka.Config{Brokers: m.brokers, Logger: log}, Topics: []string{m.topic}, Run: inbox.RunnerConfig{Retry: inbox.Retry{GiveUp: inbox.DeadLetter}},
	}
	for _, option := range options {
		option(&cfg)
	}
	c, err = kafka.NewConsumer(p, cfg)
	if err != nil {
		m.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			m.Error(err)
		}
	})
	m.Cleanup(stop)
	return c, stop
}

func (m *mailroom) handle(ctx context.Context, tx pgx.Tx, e inbox.Event[paid]) error {
	if m.first != nil {
		if err := m.first(ctx, e); err != nil {
			return err
		}
	}
	if e.Payload.Poison != 0 && !m.mended.Load() {
		return inbox.Permanent(fmt.Errorf("no such account: %d", e.Payload.Seq))
	}
	_, err := tx.Exec(ctx, `INSERT INTO effect (event_id, account, seq) VALUES ($1, $2, $3)`, e.ID, e.Payload.Account, e.Payload.Seq)
	return err
}

// outbox runs a command, and returns what it has printed.
func (m *mailroom) outbox(wantCode int, args ...string) string {
	m.Helper()
	var out, errs bytes.Buffer
	env := []string{"DATABASE_URL=" + m.url, "KAFKA_BROKERS=" + strings.Join(m.brokers, ",")}
	if code := cli.Run(m.Context(), args, strings.NewReader(""), &out, &errs, env); code != wantCode {
		m.Fatalf("outbox %s ended with %d: %s%s", strings.Join(args, " "), code, out.String(), errs.String())
	}
	return out.String() + errs.String()
}

func (m *mailroom) want(out string, texts ...string) {
	m.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			m.Errorf("this lacks %q:\n%s", text, out)
		}
	}
}

func (m *mailroom) count(query string) (n int) {
	m.Helper()
	if err := m.pool.QueryRow(m.Context(), query).Scan(&n); err != nil {
		m.Fatal(err)
	}
	return n
}

func (m *mailroom) produce(records ...*kgo.Record) {
	m.Helper()
	if err := m.client.ProduceSync(m.Context(), records...).FirstErr(); err != nil {
		m.Fatal(err)
	}
}

func (m *mailroom) event(n, poison int) *kgo.Record {
	account := fmt.Sprintf("account %d", n%10)
	return &kgo.Record{
		Topic: m.topic, Key: []byte(account), Value: fmt.Appendf(nil, `{"account": %q, "seq": %d, "poison": %d}`, account, n, poison),
		Headers: []kgo.RecordHeader{{Key: "x-event-id", Value: fmt.Append(nil, "e-", n)}, {Key: "x-event-type", Value: []byte(paidType)}, {Key: "tenant", Value: []byte{0, 255}}},
	}
}
