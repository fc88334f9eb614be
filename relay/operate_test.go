package relay_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// shop is a database, a broker, a relay between them, and the operators' side.
type shop struct {
	t        *testing.T
	pool     *pgxpool.Pool
	cluster  *kfake.Cluster
	brokers  []string
	relay    *relay.Relay
	operator *postgres.Operator
	cfg      relay.Config
	stop     context.CancelFunc
	ended    chan error
}

func newShop(t *testing.T, topics ...string) *shop {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s := &shop{t: t, pool: pgtest.New(t).Pool(t), cluster: cluster, brokers: cluster.ListenAddrs()}
	if s.operator, err = postgres.NewOperator(s.pool, postgres.Config{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// start runs a relay until the test ends, or stop.
func (s *shop) start() {
	s.t.Helper()
	log := slog.New(slog.DiscardHandler)
	source, err := postgres.New(s.pool, postgres.Config{Logger: log})
	if err != nil {
		s.t.Fatal(err)
	}
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: s.brokers, Logger: log})
	if err != nil {
		s.t.Fatal(err)
	}
	if s.relay, err = relay.New(source, publisher, s.cfg); err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s.stop, s.ended = stop, ended
	go func() { ended <- s.relay.Run(ctx); close(ended) }()
	s.t.Cleanup(func() { stop(); <-ended })
}

func (s *shop) restart() {
	s.t.Helper()
	s.stop()
	if err := <-s.ended; err != nil {
		s.t.Fatalf("stop: %v", err)
	}
	s.start()
}

// insert writes an event and returns what names it.
func (s *shop) insert(topic, key string) relay.Ref {
	s.t.Helper()
	ref := relay.Ref{EventID: uuid.New()}
	err := s.pool.QueryRow(s.t.Context(), `
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES ($1, 'Order', $3, 'order.placed.v1', '{}', $2, $3) RETURNING id`, ref.EventID, topic, key).Scan(&ref.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return ref
}

func (s *shop) count(sql string, args ...any) (n int) {
	s.t.Helper()
	if err := s.pool.QueryRow(s.t.Context(), sql, args...).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *shop) unpublished(topic string) int {
	s.t.Helper()
	return s.count(`SELECT count(*) FROM outbox_event WHERE published_at IS NULL AND topic = $1`, topic)
}

// untilPublished waits until nothing of the topic is left.
func (s *shop) untilPublished(topic string) {
	s.t.Helper()
	await.Until(s.t, "everything of "+topic+" is published", func() bool { return s.unpublished(topic) == 0 })
}

// records returns the event ids in the topic, of which there are to be n.
func (s *shop) records(topic string, n int) (ids []string) {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	for len(ids) < n {
		fetches := client.PollFetches(s.t.Context())
		if err := fetches.Err(); err != nil {
			s.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { ids = append(ids, string(r.Headers[0].Value)) })
	}
	return ids
}

// ask has the relay carry a request out.
func (s *shop) ask(verb string, key relay.Key, ref relay.Ref) postgres.Outcome {
	s.t.Helper()
	id, err := s.operator.RequestEvent(s.t.Context(), verb, key, ref, "ann", "test")
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := s.operator.Await(s.t.Context(), id)
	if err != nil || out.Problem != "" {
		s.t.Fatalf("%s: %+v, %v", verb, out, err)
	}
	return out
}

func (s *shop) pause(scope relay.PauseScope, topic, key string) {
	s.t.Helper()
	if changed, err := s.operator.Pause(s.t.Context(), scope, topic, key, "ann", "a test"); err != nil || !changed {
		s.t.Fatalf("pause %s: %t, %v", scope, changed, err)
	}
}

func (s *shop) resume(scope relay.PauseScope, topic, key string) {
	s.t.Helper()
	if changed, err := s.operator.Resume(s.t.Context(), scope, topic, key); err != nil || !changed {
		s.t.Fatalf("resume %s: %t, %v", scope, changed, err)
	}
}

func names(refs ...relay.Ref) (names []string) {
	for _, ref := range refs {
		names = append(names, ref.EventID.String())
	}
	return names
}

// What is paused waits, survives a restart of the relay, keeps nothing else, and comes in order when it is resumed.
func TestWhatIsPausedWaitsAndComesInOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scope      relay.PauseScope
		topic, key string
	}{{relay.PauseSource, "", ""}, {relay.PauseTopic, "paused", ""}, {relay.PauseKey, "paused", "k"}} {
		t.Run(string(c.scope), func(t *testing.T) {
			t.Parallel()
			s := newShop(t, "paused", "free")
			s.start()
			refs := []relay.Ref{s.insert("paused", "k")}
			s.untilPublished("paused")
			s.pause(c.scope, c.topic, c.key)
			isPaused := func() bool {
				st := s.relay.Stats()
				return st.Paused || len(st.PausedTopics) == 1 || st.PausedKeys == 1
			}
			await.Until(t, "the relay knows of it", isPaused)
			refs = append(refs, s.insert("paused", "k"), s.insert("paused", "k"))
			s.restart()
			await.Until(t, "the relay knows of it again", isPaused)
			refs = append(refs, s.insert("paused", "k"))
			if c.scope != relay.PauseSource {
				s.insert("free", "k")
				s.untilPublished("free")
			}
			if n := s.unpublished("paused"); n != 3 {
				t.Errorf("%d events wait, want 3", n)
			}
			if st := s.relay.Stats(); st.ParkedKeys > 0 || len(st.HeldTopics) > 0 || st.LastError != nil {
				t.Errorf("what is paused counts as parked, held or failed: %+v", st)
			}
			s.resume(c.scope, c.topic, c.key)
			s.untilPublished("paused")
			if got, want := s.records("paused", len(refs)), names(refs...); !slices.Equal(got, want) {
				t.Errorf("records %v, want %v", got, want)
			}
		})
	}
}

// A dead event comes back into its place: before what waits of its key, without a restart of the relay.
func TestADeadEventGoesOutInItsPlace(t *testing.T) {
	t.Parallel()
	s := newShop(t, "orders")
	s.start()
	key := relay.Key{Topic: "orders", PartitionKey: "k"}
	first := s.insert("orders", "k")
	s.untilPublished("orders")
	s.pause(relay.PauseKey, "orders", "k")
	await.Until(t, "the relay knows of it", func() bool { return s.relay.Stats().PausedKeys == 1 })
	second, third, fourth := s.insert("orders", "k"), s.insert("orders", "k"), s.insert("orders", "k")
	s.ask(postgres.VerbDead, key, second)
	s.ask(postgres.VerbSkip, key, fourth)
	s.ask(postgres.VerbRestore, key, second)
	s.resume(relay.PauseKey, "orders", "k")
	s.untilPublished("orders")
	s.ask(postgres.VerbRestore, key, fourth)
	s.untilPublished("orders")
	if got, want := s.records("orders", 4), names(first, second, third, fourth); !slices.Equal(got, want) {
		t.Errorf("records %v, want %v", got, want)
	}
	if n := s.count(`SELECT count(*) FROM outbox.dead_event`); n != 0 {
		t.Errorf("%d dead events are left", n)
	}
}

// Somebody mends the row that has stopped a key, and lets the key go on. The row goes out at once, by what it says then: not even the sweep is needed to find it.
func TestACorrectedRowGoesOutWhenItsKeyIsUnparked(t *testing.T) {
	t.Parallel()
	for name, correction := range map[string]string{
		"topic":   `UPDATE outbox_event SET topic = 'orders', payload = '{}' WHERE id = $1`,
		"key":     `UPDATE outbox_event SET partition_key = 'other', payload = '{}' WHERE id = $1`,
		"payload": `UPDATE outbox_event SET payload = '{}' WHERE id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, "orders", "typos")
			s.cfg.SweepInterval = -1
			s.start()
			var bad relay.Ref
			err := s.pool.QueryRow(t.Context(), `
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES (gen_random_uuid(), 'Order', 'k', 'order.placed.v1', jsonb_build_object('text', repeat('x', 2000000)), 'typos', 'k') RETURNING id, event_id`).Scan(&bad.ID, &bad.EventID)
			if err != nil {
				t.Fatal(err)
			}
			await.Until(t, "its key is parked", func() bool { return s.count(`SELECT count(*) FROM outbox.parked_key`) == 1 })
			if _, err := s.pool.Exec(t.Context(), correction, bad.ID); err != nil {
				t.Fatal(err)
			}
			s.ask(postgres.VerbRetry, relay.Key{Topic: "typos", PartitionKey: "k"}, bad)
			await.Until(t, "it is published", func() bool { return s.count(`SELECT count(*) FROM outbox_event WHERE published_at IS NULL`) == 0 })
			if st := s.relay.Stats(); st.SweepFinds > 0 || st.ParkedKeys > 0 {
				t.Errorf("the sweep has found it, or a key is still parked: %+v", st)
			}
		})
	}
}
