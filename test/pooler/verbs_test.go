//go:build integration

package pooler_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/cli"
	"github.com/outbox-relay/outbox/internal/devbouncer"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/relay"
)

// smallTopic takes no events of more than 5,000 bytes.
const smallTopic = "shop.small"

func (f *fixture) admin(t *testing.T) *kadm.Client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(f.brokers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return kadm.NewClient(c)
}

func (f *fixture) makeTopic(t *testing.T, name, limit string) {
	t.Helper()
	if _, err := f.admin(t).CreateTopic(t.Context(), 2, 1, map[string]*string{"max.message.bytes": &limit}, name); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
}

// raise lets the topic take large events.
func (f *fixture) raise(t *testing.T, name string) {
	t.Helper()
	limit := "100000"
	if _, err := f.admin(t).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, name); err != nil {
		t.Fatalf("raise the limit of %s: %v", name, err)
	}
}

// insertStuck commits, for each of the keys k0 and so on, an event that is too large and one behind it, and returns them, by key.
func (f *fixture) insertStuck(t *testing.T, topic string, keys int) map[string][]uuid.UUID {
	t.Helper()
	f.db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', 'k' || i, 'order.changed.v1', jsonb_build_object('x', CASE n WHEN 1 THEN repeat('x', 6000) ELSE '' END), $1, 'k' || i
FROM generate_series(1, 2) n, generate_series(0, $2::int - 1) i`, topic, keys)
	return kafkatest.InTable(t, f.db.Conn(t), topic)
}

func (f *fixture) awaitCount(t *testing.T, what string, want int, sql string, args ...any) {
	t.Helper()
	await.Until(t, what, func() bool { return queryOne[int](t, f.db.URL, sql, args...) == want })
}

const parkedSQL, unpublishedSQL = "SELECT count(*) FROM outbox.parked_key", "SELECT count(*) FROM outbox_event WHERE published_at IS NULL"

// Every verb on events and keys, alone and on many: with a relay that carries it out, and with none, where the command does. Sessions of the pool take turns, so nothing may
// last beyond a transaction.
func TestEveryVerbWorksThroughThePooler(t *testing.T) {
	t.Parallel()
	for _, version := range []string{old, recent} {
		for _, alive := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, a relay lives: %t", version, alive), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, devbouncer.Options{Version: version})
				f.makeTopic(t, smallTopic, "5000")
				events := f.insertStuck(t, smallTopic, 10)
				e := f.start(t, f.url(), relay.Config{})
				f.awaitCount(t, "ten keys are parked", 10, parkedSQL)
				if !alive {
					e.stop()
				}
				f.giveUpAndTakeBack(t, events, func() {
					if !alive {
						e = f.start(t, f.url(), relay.Config{})
					}
					f.awaitCount(t, "all that may go is published", 0, unpublishedSQL)
					if !alive {
						e.stop()
					}
				})
				// The dead ones came back behind those that were published meanwhile.
				for i := range 6 {
					slices.Reverse(events[fmt.Sprint("k", i)])
				}
				got, repeats := kafkatest.ByKey(kafkatest.Records(t, f.brokers, smallTopic))
				kafkatest.Compare(t, smallTopic, got, events)
				if repeats != 0 {
					t.Errorf("%d records came twice", repeats)
				}
				f.lookAtEverything(t, events["k0"][0])
				f.run(t, "replay: 20 of 20 done", "replay", "--topic", smallTopic, "--reason", "a test", "--yes")
				if n := len(kafkatest.Records(t, f.brokers, smallTopic)); n != 40 {
					t.Errorf("the topic holds %d records after the replay, want 40", n)
				}
				f.run(t, "20", "prune", "--older-than", "0s", "--yes")
				if n := queryOne[int](t, f.db.URL, "SELECT count(*) FROM outbox_event"); n != 0 {
					t.Errorf("%d rows are left by prune, want none", n)
				}
			})
		}
	}
}

// giveUpAndTakeBack gives up the first events of k0 to k5, lets the others go on, and takes back what was given up. settle waits until everything is published.
func (f *fixture) giveUpAndTakeBack(t *testing.T, events map[string][]uuid.UUID, settle func()) {
	t.Helper()
	first := func(i int) string { return events[fmt.Sprint("k", i)][0].String() }
	f.run(t, "skipped", "events", "skip", first(0), "--reason", "a test")
	f.run(t, "dead", "events", "dead", first(1), "--reason", "a test")
	f.run(t, "dead: 1 of 1 done", "events", "dead", "--topic", smallTopic, "--key", "k2", "--reason", "a test", "--yes")
	f.run(t, "skipped", "keys", "skip", "--topic", smallTopic, "--key", "k3", "--reason", "a test")
	f.run(t, "skip: 2 of 2 done", "events", "skip", first(4), first(5), "--reason", "a test", "--yes")
	f.raise(t, smallTopic)
	f.run(t, "retried", "events", "retry", first(6))
	f.run(t, "retry: 2 of 2 done", "events", "retry", "--id", first(7), "--id", first(8), "--yes")
	f.run(t, "unpark: 1 of 1 done", "keys", "unpark", "--topic", smallTopic, "--error", "too_large", "--yes")
	settle()
	f.run(t, "restored", "events", "restore", first(0), "--yes")
	f.run(t, "restore: 5 of 5 done", "events", "restore", "--topic", smallTopic, "--yes")
	settle()
}

// lookAtEverything asks each command that only looks.
func (f *fixture) lookAtEverything(t *testing.T, event uuid.UUID) {
	t.Helper()
	f.run(t, event.String(), "events", "show", event.String())
	f.run(t, "order.changed.v1", "events", "list", "--topic", smallTopic)
	f.run(t, "no event", "events", "list", "--state", "dead")
	f.run(t, "no key is parked", "keys", "list")
	f.run(t, "", "topics")
	f.run(t, "PARKED KEYS", "lanes", "list")
	f.run(t, "", "relays")
	f.run(t, "restore", "jobs", "list")
	f.run(t, "a test", "audit")
	f.run(t, "pending", "status")
}

func TestPausesAreObeyedThroughThePooler(t *testing.T) {
	t.Parallel()
	for _, version := range []string{old, recent} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, devbouncer.Options{Version: version, PoolSize: 1})
			e := f.start(t, f.url(), relay.Config{})
			for _, scope := range [][]string{{"relay"}, {"topic", topic}, {"key", topic, "order-1"}} {
				f.run(t, "", append([]string{"pause", "--reason", "because of a test"}, scope...)...)
				await.Until(t, "the pause is obeyed", func() bool {
					s := e.Stats()
					return s.Paused || len(s.PausedTopics) > 0 || s.PausedKeys > 0
				})
				f.insert(t, topic, "order-1")
				f.run(t, "because of a test", "pause", "list")
				if n := queryOne[int](t, f.db.URL, unpublishedSQL); n != 1 {
					t.Errorf("%v is paused: %d events are unpublished, want 1", scope, n)
				}
				f.run(t, "", append([]string{"resume"}, scope...)...)
				f.awaitAllPublished(t)
			}
			f.checkOrder(t)
		})
	}
}

// Letters, attempts and what they leave in the database, through one session.
func TestLettersAndAttemptsThroughThePooler(t *testing.T) {
	t.Parallel()
	for _, version := range []string{old, recent} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, devbouncer.Options{Version: version, PoolSize: 1})
			f.makeTopic(t, smallTopic, "5000")
			f.makeTopic(t, "dead."+smallTopic, "100000")
			events := f.insertStuck(t, smallTopic, 20)
			policy, err := relay.ParsePolicy("*=dead-letter topic=dead.{topic} attempts=2 backoff=1ms..2ms")
			if err != nil {
				t.Fatal(err)
			}
			f.start(t, f.url(), relay.Config{Policies: []relay.Policy{policy}})
			f.awaitAllPublished(t)
			f.awaitCount(t, "every large event is dead, by two attempts", 20, "SELECT count(*) FROM outbox.dead_event WHERE attempts = 2 AND letter_topic = $1", "dead."+smallTopic)
			letters, want := map[string][]uuid.UUID{}, map[string][]uuid.UUID{}
			for _, r := range kafkatest.Records(t, f.brokers, "dead."+smallTopic) {
				letters[string(r.Key)] = append(letters[string(r.Key)], kafkatest.EventIDs([]*kgo.Record{r})...)
			}
			for key, ids := range events {
				want[key], events[key] = ids[:1], ids[1:]
			}
			kafkatest.Compare(t, "the letters", letters, want)
			got, _ := kafkatest.ByKey(kafkatest.Records(t, f.brokers, smallTopic))
			kafkatest.Compare(t, smallTopic, got, events)
			if n := queryOne[int](t, f.db.URL, "SELECT count(*) FROM outbox.failure"); n != 0 {
				t.Errorf("%d records of failed attempts are left", n)
			}
		})
	}
}

// A relay that deletes what is old, while it publishes.
func TestARelayRetainsThroughThePooler(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{PoolSize: 1})
	f.db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, published_at)
SELECT gen_random_uuid(), 'Order', i::text, 'order.changed.v1', '{}', $1, i::text, now() - interval '1 hour' FROM generate_series(1, 12000) i`, topic)
	f.insert(t, topic, "order-1")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	var log bytes.Buffer
	go func() {
		ended <- cli.Run(ctx, []string{"relay", "--retain", "10m"}, strings.NewReader(""), &bytes.Buffer{}, &log,
			[]string{"DATABASE_URL=" + f.url(), "KAFKA_BROKERS=" + strings.Join(f.brokers, ",")})
	}()
	f.awaitCount(t, "only the new event is left", 1, "SELECT count(*) FROM outbox_event")
	f.awaitAllPublished(t)
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("the relay ended with %d: %s", code, &log)
	}
}

// Partitions are detached by a statement that no transaction may hold.
func TestPartitionsArePrunedThroughThePooler(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{}, pgtest.Empty)
	f.db.Exec(t, `
CREATE TABLE outbox_event (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id uuid NOT NULL, aggregate_type text NOT NULL, aggregate_id text NOT NULL, event_type text NOT NULL,
    payload jsonb NOT NULL, topic text NOT NULL, partition_key text NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz, UNIQUE (event_id, id)
) PARTITION BY RANGE (id);
CREATE INDEX ix_outbox_event_unpublished ON outbox_event (id) WHERE published_at IS NULL;
CREATE TABLE outbox_event_p1 PARTITION OF outbox_event FOR VALUES FROM (1) TO (51)`)
	if _, err := migrate.Up(t.Context(), f.db.Conn(t), migrate.Config{}); err != nil {
		t.Fatal(err)
	}
	prune := []string{"prune", "--partitions", "--older-than", "0s", "--ahead", "3", "--yes"}
	f.run(t, "outbox_event_p151", prune...)
	f.start(t, f.url(), relay.Config{})
	err := pgx.BeginFunc(t.Context(), f.db.Conn(t), func(tx pgx.Tx) error {
		for i := range 120 {
			if _, err := tx.Exec(t.Context(), insertSQL, topic, keyName(i%7)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f.awaitAllPublished(t)
	f.checkOrder(t)
	f.run(t, "outbox_event_p51", prune...)
	if got := queryOne[string](t, f.db.URL, `SELECT string_agg(inhrelid::regclass::text, ' ' ORDER BY inhrelid::regclass::text COLLATE "C") FROM pg_inherits WHERE inhparent = 'outbox_event'::regclass`); got !=
		"outbox_event_p101 outbox_event_p151 outbox_event_p201 outbox_event_p251" {
		t.Errorf("the partitions are %s", got)
	}
}
