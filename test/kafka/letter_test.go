//go:build integration

package kafka_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/relay"
)

// oversized is a payload that a topic of 5,000 bytes does not take.
func oversized(n int) string { return fmt.Sprintf(`{"n":%d,"x":"%s"}`, n, strings.Repeat("x", 6000)) }

// letters is the policy that sends what fails to a topic of the same name with dead- in front.
var letters = []relay.Policy{{OnFailure: relay.DeadLetter, DeadLetterTopic: "dead-{topic}"}}

// deadTopic is where the policy letters sends a topic's events.
func deadTopic(topic string) string { return "dead-" + topic }

func headersOf(r *kgo.Record) map[string]string {
	all := map[string]string{}
	for _, h := range r.Headers {
		all[h.Key] = string(h.Value)
	}
	return all
}

// awaitPublished waits until nothing is unpublished.
func (f *fixture) awaitPublished(t *testing.T) {
	t.Helper()
	await.Until(t, "everything is published", func() bool { return f.pending(t) == 0 })
}

func (f *fixture) awaitParked(t *testing.T, keys int) {
	t.Helper()
	await.Until(t, fmt.Sprintf("%d keys are parked", keys), func() bool { return f.count(t, "SELECT count(*) FROM outbox.parked_key") == keys })
}

func TestALetterHasTheRecordsKeyValueAndHeadersAndWhyItWasGivenUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.Exec(t, "ALTER TABLE outbox_event ADD COLUMN headers jsonb")
	topic := f.topic(t, name("letters"), 3, "max.message.bytes", "5000")
	f.topic(t, deadTopic(topic), 4)
	before := f.insert(t, topic, "a", `{"n":1}`)
	large := f.insert(t, topic, "a", oversized(2))
	f.db.Exec(t, `UPDATE outbox_event SET headers = '{"traceparent":"00-1","x-mine":"ü"}' WHERE event_id = $1`, large)
	behind := []uuid.UUID{f.insert(t, topic, "a", `{"n":3}`), f.insert(t, topic, "a", `{"n":4}`)}
	other := f.insert(t, topic, "b", `{"n":5}`)
	begun := time.Now()
	e := f.start(t, relay.Config{Policies: letters})
	f.awaitPublished(t)
	await.Until(t, "the event is dead", func() bool { return e.Stats().Dead == 1 })

	got := read(t, deadTopic(topic), 1)
	if n := len(f.records(t, deadTopic(topic))); n != 1 {
		t.Fatalf("%d letters, want 1", n)
	}
	r := got[0]
	if want := oversized(2); string(r.Key) != "a" || string(r.Value) != want {
		t.Errorf("letter: key %q and a value of %d bytes, want a and those of the event, %d", r.Key, len(r.Value), len(want))
	}
	if want := partitionOf("a", 4); int(r.Partition) != want {
		t.Errorf("the letter is in partition %d, want %d, that of its key", r.Partition, want)
	}
	h := headersOf(r)
	at, err := time.Parse(time.RFC3339Nano, h["x-outbox-error-at"])
	if err != nil || at.Before(begun.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("x-outbox-error-at: %q, want a time since the test began", h["x-outbox-error-at"])
	}
	if reason := h["x-outbox-error-reason"]; !strings.Contains(reason, "max.message.bytes") || !strings.Contains(reason, "5000") {
		t.Errorf("x-outbox-error-reason: %q does not name the limit", reason)
	}
	delete(h, "x-outbox-error-at")
	delete(h, "x-outbox-error-reason")
	want := map[string]string{
		"x-event-id": large.String(), "x-event-type": "order.changed.v1", "traceparent": "00-1", "x-mine": "ü",
		"x-outbox-error-code": "MESSAGE_TOO_LARGE", "x-outbox-error-topic": topic, "x-outbox-error-attempts": "1",
	}
	if !maps.Equal(h, want) {
		t.Errorf("headers:\n got %v\nwant %v", h, want)
	}
	keys, repeats := kafkatest.ByKey(f.records(t, topic))
	if want := append([]uuid.UUID{before}, behind...); !slices.Equal(keys["a"], want) || !slices.Equal(keys["b"], []uuid.UUID{other}) || repeats != 0 {
		t.Errorf("the topic holds %v with %d repeats, want %v of a and %v of b", keys, repeats, want, other)
	}
	// Where it was sent is kept with it.
	place := fmt.Sprintf("%s/%d/%d", deadTopic(topic), r.Partition, r.Offset)
	if n := f.count(t, `SELECT count(*) FROM outbox.dead_event WHERE event_id = $1 AND event->'payload'->>'n' = '2' AND concat_ws('/', letter_topic, letter_partition, letter_offset) = $2`,
		large, place); n != 1 {
		t.Errorf("%d dead events hold the whole event and its place %s, want 1", n, place)
	}
}

func partitionOf(key string, partitions int) int {
	return kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(&kgo.Record{Key: []byte(key)}, partitions)
}

// A consumer that reads what is committed only, and trusts sequences, gets letters as it gets records: they come from the same idempotent producer, and from no
// transaction.
func TestLettersAreOfTheIdempotentProducerAndOfNoTransaction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("idempotent"), 1, "max.message.bytes", "5000")
	f.topic(t, deadTopic(topic), 1)
	const keys = 300
	for n := range keys {
		f.insert(t, topic, fmt.Sprint("k", n), oversized(n))
		f.insert(t, topic, fmt.Sprint("k", n), `{"follower":true}`)
	}
	e := f.start(t, relay.Config{Policies: letters})
	f.awaitPublished(t)
	await.Until(t, "all of them are dead", func() bool { return e.Stats().Dead == keys })
	cl := client(t, kgo.ConsumeTopics(deadTopic(topic)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	seen := map[string]int{}
	for read := 0; read < keys; {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			read++
			seen[string(r.Key)]++
			if r.ProducerID < 0 || r.Attrs.IsTransactional() {
				t.Errorf("the letter of %s has producer %d, transactional %t; want an idempotent one", r.Key, r.ProducerID, r.Attrs.IsTransactional())
			}
		})
	}
	if n := len(f.records(t, deadTopic(topic))); len(seen) != keys || n != keys {
		t.Errorf("%d letters of %d keys, want %d of each", n, len(seen), keys)
	}
	if n := len(f.records(t, topic)); n != keys {
		t.Errorf("%d followers are in the topic, want %d", n, keys)
	}
	if errs := e.Stats().Errors; errs[relay.ClassEvent] != keys || errs[relay.ClassOutage]+errs[relay.ClassTopic]+errs[relay.ClassUnknown] != 0 {
		t.Errorf("errors by class: %v, want %d of the events and no others", errs, keys)
	}
}

// A dead-letter topic that does not take the letter stops the key; when it does, the key is let go on.
func TestADeadLetterTopicThatTakesNoLettersParksTheKeyWithBothReasons(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, code string
		make, mend func(t *testing.T, f *fixture, topic string)
	}{
		{
			"missing", "UNKNOWN_TOPIC_OR_PARTITION",
			func(*testing.T, *fixture, string) {},
			func(t *testing.T, f *fixture, topic string) { f.topic(t, topic, 2) },
		},
		{
			"forbidden", "TOPIC_AUTHORIZATION_FAILED",
			func(t *testing.T, f *fixture, topic string) {
				f.topic(t, topic, 2)
				f.forbid(t, topic)
			},
			func(t *testing.T, f *fixture, topic string) { f.allow(t, topic) },
		},
		{
			"too small", "MESSAGE_TOO_LARGE",
			func(t *testing.T, f *fixture, topic string) { f.topic(t, topic, 2, "max.message.bytes", "2000") },
			func(t *testing.T, f *fixture, topic string) { f.setLimit(t, topic, "100000") },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newAuthorizingFixture(t)
			topic := f.topic(t, name("refused"), 2, "max.message.bytes", "5000")
			dead := deadTopic(topic)
			c.make(t, f, dead)
			large := f.insert(t, topic, "a", oversized(1))
			f.insert(t, topic, "a", `{"n":2}`)
			f.insert(t, topic, "b", `{"n":3}`)
			f.start(t, relay.Config{Policies: letters})
			f.awaitParked(t, 1)
			await.Until(t, "the other key is published", func() bool { return f.pending(t) == 2 })
			var why string
			if err := f.pool.QueryRow(t.Context(), "SELECT code || ' ' || reason FROM outbox.parked_key WHERE event_id = $1", large).Scan(&why); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"MESSAGE_TOO_LARGE", dead, c.code, "outbox keys unpark"} {
				if !strings.Contains(why, want) {
					t.Errorf("the reason does not say %q: %s", want, why)
				}
			}
			c.mend(t, f, dead)
			// The relay may not have heard of it: then the key is parked again, and the operator tries once more.
			await.Until(t, "the key goes on", func() bool {
				if f.pending(t) == 0 {
					return true
				}
				if f.count(t, "SELECT count(*) FROM outbox.parked_key") == 1 {
					f.outbox(t, "keys", "unpark", "--topic", topic, "--key", "a")
				}
				return false
			})
			got := f.records(t, dead)
			if len(got) != 1 || headersOf(got[0])["x-event-id"] != large.String() {
				t.Errorf("%d letters, want the one of event %s", len(got), large)
			}
			if n := f.count(t, "SELECT count(*) FROM outbox.dead_event WHERE event_id = $1", large); n != 1 {
				t.Errorf("%d dead events, want 1", n)
			}
			if n := len(f.records(t, topic)); n != 2 {
				t.Errorf("%d records in the topic, want the two others", n)
			}
		})
	}
}

func TestADeadLetterTopicByNameMustExistWhenTheRelayStarts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	missing := name("nowhere")
	_, stderr, code := f.outbox(t, "relay", "--on-failure", "*=dead-letter topic="+missing)
	if code == 0 || !strings.Contains(stderr, missing) || !strings.Contains(stderr, "UNKNOWN_TOPIC_OR_PARTITION") {
		t.Errorf("relay ended with %d and said %s", code, stderr)
	}
}

// One wrong limit fails thousands of events of one key. They are given up many at once, and what is good between them goes out in order.
func TestManyLargeEventsOfAKeyAreGivenUpTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("many"), 3, "max.message.bytes", "5000")
	f.topic(t, deadTopic(topic), 3)
	const events = 6000
	f.db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', 'k', 'order.changed.v1', jsonb_build_object('n', n, 'x', CASE WHEN n % 3 > 0 THEN repeat('x', 6000) ELSE '' END), $1, 'k' FROM generate_series(1, $2::int) n`, topic, events)
	began := time.Now()
	f.start(t, relay.Config{Policies: letters})
	f.awaitPublished(t)
	t.Logf("%d events in %s", events, time.Since(began).Round(time.Millisecond))
	if repeats := f.compareOrder(t, topic); repeats != 0 {
		t.Errorf("%d records came twice", repeats)
	}
	if n := f.count(t, "SELECT count(*) FROM outbox.dead_event WHERE attempts = 1 AND code = 'MESSAGE_TOO_LARGE' AND length(event->'payload'->>'x') = 6000"); n != events/3*2 {
		t.Errorf("%d events are dead, want %d", n, events/3*2)
	}
	// Letters of one key are in the order of its events, as records are.
	var want []uuid.UUID
	if err := f.pool.QueryRow(t.Context(), "SELECT array_agg(event_id ORDER BY id) FROM outbox.dead_event").Scan(&want); err != nil {
		t.Fatal(err)
	}
	if got := kafkatest.EventIDs(f.records(t, deadTopic(topic))); !slices.Equal(got, want) {
		t.Errorf("%d letters are not those of the %d dead events, in their order", len(got), len(want))
	}
	if n := f.count(t, "SELECT count(DISTINCT xmin::text) FROM outbox.dead_event"); n > events/3 {
		t.Errorf("%d events were moved by %d transactions", events/3*2, n)
	}
}
