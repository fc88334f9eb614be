//go:build integration

package kafka_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

var ann = operate.Actor{Name: "ann", Role: operate.Operator}

func (f *fixture) operator(t *testing.T) *operate.Service {
	t.Helper()
	store, err := postgres.NewStore(f.pool, postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := operate.New(store, nil, operate.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// act expects the verb to be done.
func act(t *testing.T, s *operate.Service, a operate.Action) {
	t.Helper()
	if a.Verb == operate.VerbSkip || a.Verb == operate.VerbDead {
		a.Reason = "a test"
	}
	if text, err := s.Act(t.Context(), ann, a); err != nil {
		t.Errorf("%s: %v", a, err)
	} else {
		t.Log(text)
	}
}

// stuck parks the given number of keys, k0 and so on, each at its first event of three, and returns the events of each.
func (f *fixture) stuck(t *testing.T, topic string, keys int) map[string][]uuid.UUID {
	t.Helper()
	events := map[string][]uuid.UUID{}
	for i := range keys {
		key := fmt.Sprint("k", i)
		events[key] = []uuid.UUID{f.insert(t, topic, key, oversized(1)), f.insert(t, topic, key, `{"n":2}`), f.insert(t, topic, key, `{"n":3}`)}
	}
	return events
}

func event(id uuid.UUID) operate.Ref { return operate.Ref{EventID: id} }

// Each verb on one event or key, while the relay lives: what becomes of it is seen in the topic.
func TestWhatAnOperatorDecidesIsInTheTopicInTheOrderOfTheKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("verbs"), 4, "max.message.bytes", "5000")
	events := f.stuck(t, topic, 6)
	f.start(t, relay.Config{})
	f.awaitParked(t, 6)
	s := f.operator(t)
	k := func(i int) []uuid.UUID { return events[fmt.Sprint("k", i)] }

	// Retried while the cause is there, it is parked again.
	act(t, s, operate.Action{Verb: operate.VerbRetry, Event: event(k(0)[0])})
	await.Until(t, "it is parked again", func() bool {
		return f.count(t, "SELECT coalesce(max(attempts), 0) FROM outbox.failure WHERE event_id = $1", k(0)[0]) == 2 &&
			f.count(t, "SELECT count(*) FROM outbox.parked_key WHERE event_id = $1", k(0)[0]) == 1
	})
	act(t, s, operate.Action{Verb: operate.VerbSkip, Event: event(k(1)[0])})
	act(t, s, operate.Action{Verb: operate.VerbDead, Event: event(k(2)[0])})
	act(t, s, operate.Action{Verb: operate.VerbSkip, Topic: topic, PartitionKey: "k3"})
	await.Until(t, "three keys go on", func() bool { return f.pending(t) == 3*3 })

	f.setLimit(t, topic, "100000")
	act(t, s, operate.Action{Verb: operate.VerbRetry, Event: event(k(0)[0])})
	act(t, s, operate.Action{Verb: operate.VerbUnpark, Topic: topic, PartitionKey: "k4"})
	await.Until(t, "two more go on", func() bool { return f.pending(t) == 3 })
	// An event in the middle of a parked key, then the one that stops it: the last one remains.
	act(t, s, operate.Action{Verb: operate.VerbDead, Event: event(k(5)[1])})
	act(t, s, operate.Action{Verb: operate.VerbRetry, Event: event(k(5)[0])})
	f.awaitPublished(t)

	var unconfirmed *operate.Error
	restore := operate.Action{Verb: operate.VerbRestore, Event: event(k(2)[0])}
	if _, err := s.Act(t.Context(), ann, restore); !errors.As(err, &unconfirmed) || unconfirmed.Code != operate.CodeUnconfirmed {
		t.Errorf("restore behind newer events: %v, want it to be asked for", err)
	}
	restore.Overtaking = true
	act(t, s, restore)
	f.awaitPublished(t)
	if _, err := s.Act(t.Context(), ann, restore); !errors.As(err, &unconfirmed) || unconfirmed.Code != operate.CodeConflict {
		t.Errorf("restored twice: %v, want a conflict", err)
	}
	want := map[string][]uuid.UUID{
		"k0": k(0), "k1": k(1)[1:], "k2": {k(2)[1], k(2)[2], k(2)[0]}, "k3": k(3)[1:], "k4": k(4), "k5": {k(5)[0], k(5)[2]},
	}
	got, repeats := kafkatest.ByKey(f.records(t, topic))
	kafkatest.Compare(t, topic, got, want)
	if repeats != 0 {
		t.Errorf("%d records came twice", repeats)
	}
	if n := f.count(t, "SELECT count(*) FROM outbox.dead_event"); n != 3 {
		t.Errorf("%d dead events, want 3", n)
	}
	if n := f.count(t, "SELECT count(*) FROM outbox.audit WHERE actor = 'ann' AND ended_at IS NOT NULL AND affected = 1"); n != 9 {
		t.Errorf("%d rows of the audit say that one was changed, want 9", n)
	}
}

func TestManyAreGivenUpAndTakenBackWhileTheRelayPublishes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic, live := f.topic(t, name("bulk"), 4, "max.message.bytes", "5000"), f.topic(t, name("live"), 4)
	const keys = 400
	events := f.stuck(t, topic, keys)
	f.start(t, relay.Config{})
	stop := f.writing(t, live)
	f.awaitParked(t, keys)
	s := f.operator(t)
	run := func(b operate.Bulk, want int64) {
		t.Helper()
		b.Reason = "a test"
		r, err := s.Run(t.Context(), ann, b, operate.Confirmed{Any: true}, nil)
		if err != nil || r.Done != want || r.Total != want || r.State != operate.JobDone {
			t.Errorf("%s: %+v, %v; want %d done", b.Verb, r, err, want)
		}
	}
	only := func(key string) *string { return &key }
	run(operate.Bulk{Verb: operate.VerbDead, Events: &operate.EventFilter{Topic: &topic}}, keys)
	await.Until(t, "the keys go on", func() bool {
		return f.count(t, "SELECT count(*) FROM outbox_event WHERE topic = $1 AND published_at IS NULL", topic) == 0
	})
	// Restored while the cause is there they stop their keys again, at the same events.
	run(operate.Bulk{Verb: operate.VerbRestore, Events: &operate.EventFilter{Topic: &topic}}, keys)
	f.awaitParked(t, keys)
	run(operate.Bulk{Verb: operate.VerbSkip, Keys: &operate.KeyFilter{Topic: &topic, PartitionKey: only("k7")}}, 1)
	f.setLimit(t, topic, "100000")
	run(operate.Bulk{Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{Topic: &topic}}, keys-1)
	written := stop()
	f.awaitPublished(t)
	want := map[string][]uuid.UUID{}
	for key, ids := range events {
		want[key] = append(ids[1:len(ids):len(ids)], ids[0])
	}
	want["k7"] = events["k7"][1:]
	got, repeats := kafkatest.ByKey(f.records(t, topic))
	kafkatest.Compare(t, topic, got, want)
	records := f.records(t, live)
	inOrder(t, records)
	if repeats != 0 || len(records) != written {
		t.Errorf("%d repeats, and %d records of %d events beside them; want 0 and all", repeats, len(records), written)
	}
}

func TestAReplayHasTheSameRecordsInOrderAndIsMarked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic, other := f.topic(t, name("replay"), 4), f.topic(t, name("other"), 4)
	f.db.Exec(t, "ALTER TABLE outbox_event ADD COLUMN headers jsonb")
	f.db.Exec(t, seedSQL, 2000, topic)
	f.db.Exec(t, `UPDATE outbox_event SET headers = jsonb_build_object('mine', id)`)
	f.insert(t, other, "k", `{}`)
	f.start(t, relay.Config{})
	f.awaitPublished(t)
	first := f.records(t, topic)
	f.db.Exec(t, "DELETE FROM outbox_event WHERE partition_key = 'order-7'")
	waiting := f.insert(t, name("missing"), "k", `{}`)

	publisher, err := kafka.NewReplayer(kafka.Config{Brokers: f.brokers, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	b := operate.Bulk{Verb: operate.VerbReplay, Events: &operate.EventFilter{Topic: &topic}, Reason: "a new consumer"}
	r, err := f.operator(t).Replay(t.Context(), ann, b, operate.MaxReplayRate, operate.Confirmed{Any: true}, publisher, nil)
	if err != nil || r.Done != 2000-4 || r.Total != r.Done {
		t.Fatalf("replay: %+v, %v; want %d done", r, err, 2000-4)
	}
	var again []*kgo.Record
	for _, rec := range f.records(t, topic) {
		if _, marked := headersOf(rec)[kafka.HeaderReplay]; marked {
			again = append(again, rec)
		}
	}
	compareReplay(t, again, first, strconv.FormatInt(r.Job, 10))
	if n := len(f.records(t, other)); n != 1 {
		t.Errorf("the other topic holds %d records, want 1", n)
	}
	if n := f.count(t, "SELECT count(*) FROM outbox_event WHERE event_id = $1 AND published_at IS NULL", waiting); n != 1 {
		t.Errorf("the unpublished event was touched")
	}
}

// compareReplay wants the records again, but for those of order-7, each partition in its order, with the mark behind all other headers.
func compareReplay(t *testing.T, got, first []*kgo.Record, mark string) {
	t.Helper()
	byPartition := func(records []*kgo.Record) map[int32][]string {
		all := map[int32][]string{}
		for _, r := range records {
			if string(r.Key) != "order-7" {
				all[r.Partition] = append(all[r.Partition], fmt.Sprintf("%s %s %v", r.Key, r.Value, r.Headers))
			}
		}
		return all
	}
	for _, r := range got {
		last := len(r.Headers) - 1
		if h := r.Headers[last]; h.Key != kafka.HeaderReplay || string(h.Value) != mark {
			t.Fatalf("the last header is %s=%s, want %s=%s", h.Key, h.Value, kafka.HeaderReplay, mark)
		}
		r.Headers = r.Headers[:last]
	}
	want, have := byPartition(first), byPartition(got)
	for p, records := range want {
		// Different keys pipeline freely the first time; within a key the order is the same.
		slices.Sort(records)
		slices.Sort(have[p])
		if !slices.Equal(have[p], records) {
			t.Errorf("partition %d holds %d records again that are not the %d of the first time", p, len(have[p]), len(records))
		}
	}
	firstKeys, _ := kafkatest.ByKey(first)
	delete(firstKeys, "order-7")
	gotKeys, repeats := kafkatest.ByKey(got)
	kafkatest.Compare(t, "the replay", gotKeys, firstKeys)
	if repeats != 0 {
		t.Errorf("%d records were replayed twice", repeats)
	}
}
