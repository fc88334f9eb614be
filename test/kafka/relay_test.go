//go:build integration

package kafka_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/relay"
)

// seedSQL commits $1 events of 500 keys by plain SQL, as any service may.
const seedSQL = `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', (i % 500)::text, 'order.confirmed.v1',
    jsonb_build_object('n', i, 'amount', 1.10::numeric, 'id', 9007199254740993 + i, 'note', repeat('ü"<>&', i % 7)), $2, 'order-' || i % 500
FROM generate_series(1, $1::int) i`

func TestEveryRowIsInKafkaAsItIsInTheTable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("drain"), 12)
	const rows = 20_000
	f.db.Exec(t, seedSQL, rows, topic)
	stdout, stderr, code := f.outbox(t, "relay", "--once")
	if code != 0 || !strings.Contains(stdout, fmt.Sprintf("published %d events", rows)) {
		t.Fatalf("relay --once ended with %d\n%s%s", code, stdout, stderr)
	}
	if n := f.pending(t); n != 0 {
		t.Errorf("%d rows are still unpublished", n)
	}
	records := map[uuid.UUID]*kgo.Record{}
	got := f.records(t, topic)
	for i, id := range kafkatest.EventIDs(got) {
		records[id] = got[i]
	}
	if len(got) != rows || len(records) != rows {
		t.Errorf("the topic holds %d records of %d events, want %d of each", len(got), len(records), rows)
	}
	f.compareRows(t, records)
	f.compareOrder(t, topic)
}

// compareRows compares each row with its record: key, value and headers.
func (f *fixture) compareRows(t *testing.T, records map[uuid.UUID]*kgo.Record) {
	t.Helper()
	rows, err := f.pool.Query(t.Context(), "SELECT event_id, event_type, partition_key, payload::text FROM outbox_event")
	if err != nil {
		t.Fatal(err)
	}
	partitions := kgo.StickyKeyPartitioner(nil).ForTopic("")
	var id uuid.UUID
	var typ, key, payload string
	_, err = pgx.ForEachRow(rows, []any{&id, &typ, &key, &payload}, func() error {
		r := records[id]
		if r == nil {
			t.Errorf("event %s is not in Kafka", id)
			return nil
		}
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(payload)); err != nil {
			return err
		}
		headers := []kgo.RecordHeader{{Key: "x-event-id", Value: []byte(id.String())}, {Key: "x-event-type", Value: []byte(typ)}}
		if string(r.Key) != key || !bytes.Equal(r.Value, want.Bytes()) || fmt.Sprint(r.Headers) != fmt.Sprint(headers) {
			t.Errorf("event %s\ngot  key %q value %s headers %v\nwant key %q value %s headers %v", id, r.Key, r.Value, r.Headers, key, want.Bytes(), headers)
		}
		if want := partitions.Partition(r, 12); int(r.Partition) != want {
			t.Errorf("event %s with key %q is in partition %d, want %d", id, key, r.Partition, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTooLargeEventsParkTheirKeysAndNothingElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const limit = 10_000
	topic := f.topic(t, name("sizes"), 1, "max.message.bytes", fmt.Sprint(limit))
	// One event of every size around the limit, each with a key of its own and a follower; only the broker knows where the limit is.
	for size := limit - 400; size < limit+200; size += 3 {
		key := fmt.Sprintf("k%d", size)
		f.insert(t, topic, key, fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("x", size-200)))
		f.insert(t, topic, key, `{"follower":true}`)
		f.insert(t, topic, "good", fmt.Sprintf(`{"n":%d}`, size))
	}
	e := f.start(t, relay.Config{})
	parked := func() int { return f.count(t, "SELECT count(*) FROM outbox.parked_key") }
	await.Until(t, "only parked keys are pending", func() bool { return parked() > 0 && f.pending(t) == 2*parked() })
	largest, smallest := 0, 1<<30
	rows, err := f.pool.Query(t.Context(), `SELECT length(payload::text), published_at IS NOT NULL FROM outbox_event WHERE payload ? 'x'`)
	if err != nil {
		t.Fatal(err)
	}
	var size int
	var published bool
	if _, err := pgx.ForEachRow(rows, []any{&size, &published}, func() error {
		if published {
			largest = max(largest, size)
		} else {
			smallest = min(smallest, size)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if largest >= smallest {
		t.Errorf("a payload of %d bytes went out and one of %d was parked", largest, smallest)
	}
	if errs := e.Stats().Errors; errs[relay.ClassOutage]+errs[relay.ClassTopic]+errs[relay.ClassUnknown] != 0 {
		t.Errorf("errors of other classes: %v", errs)
	}
	if repeats := len(f.records(t, topic)) - f.count(t, "SELECT count(*) FROM outbox_event WHERE published_at IS NOT NULL"); repeats != 0 {
		t.Errorf("%d records came twice", repeats)
	}
}

func TestAParkedKeyGoesOnInOrderWhenItsCauseIsMended(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("mend"), 3, "max.message.bytes", "5000")
	e := f.start(t, relay.Config{})
	f.insert(t, topic, "a", `{"n":1}`)
	f.insert(t, topic, "a", fmt.Sprintf(`{"n":2,"x":"%s"}`, strings.Repeat("x", 6000)))
	f.insert(t, topic, "a", `{"n":3}`)
	f.insert(t, topic, "b", fmt.Sprintf(`{"n":1,"x":"%s"}`, strings.Repeat("x", 6000)))
	f.insert(t, topic, "b", `{"n":2}`)
	await.Until(t, "two keys are parked", func() bool {
		return e.Stats().ParkedKeys == 2 && f.count(t, "SELECT count(*) FROM outbox.parked_key") == 2
	})
	value := "20000"
	if _, err := f.admin(t).AlterTopicConfigs(t.Context(), []kadmAlter{{Op: kadmSet, Name: "max.message.bytes", Value: &value}}, topic); err != nil {
		t.Fatal(err)
	}
	f.awaitLimit(t, topic, value)
	if out, errs, code := f.outbox(t, "keys", "unpark", "--topic", topic, "--key", "a"); code != 0 {
		t.Fatalf("unpark: %d\n%s%s", code, out, errs)
	}
	if out, errs, code := f.outbox(t, "keys", "skip", "--topic", topic, "--key", "b", "--reason", "sent by hand"); code != 0 {
		t.Fatalf("skip: %d\n%s%s", code, out, errs)
	}
	f.insert(t, topic, "a", `{"n":4}`)
	await.Until(t, "everything is published", func() bool { return f.pending(t) == 0 })
	f.compareOrder(t, topic)
	if n := f.count(t, "SELECT count(*) FROM outbox.dead_event WHERE event->'payload'->>'n' = '1' AND reason LIKE '%sent by hand%'"); n != 1 {
		t.Errorf("%d dead events hold the skipped one whole, want 1", n)
	}
}

// awaitLimit waits until the broker has taken over a topic's new limit, which it does some time after it has agreed to it.
func (f *fixture) awaitLimit(t *testing.T, topic, want string) {
	t.Helper()
	admin := f.admin(t)
	await.Until(t, "the broker knows the new limit", func() bool {
		found, err := admin.DescribeTopicConfigs(t.Context(), topic)
		if err != nil || len(found) == 0 {
			return false
		}
		for _, c := range found[0].Configs {
			if c.Key == "max.message.bytes" && c.Value != nil && *c.Value == want {
				return true
			}
		}
		return false
	})
}

func TestManyMiddlingEventsOfOneKeyGoOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("hot"), 12)
	for n := range 60 {
		f.insert(t, topic, "hot", fmt.Sprintf(`{"n":%d,"x":"%s"}`, n, strings.Repeat("x", 30_000)))
	}
	f.start(t, relay.Config{})
	await.Until(t, "everything is published", func() bool { return f.pending(t) == 0 })
	if repeats := f.compareOrder(t, topic); repeats != 0 {
		t.Errorf("%d records came twice", repeats)
	}
}

func TestAMissingTopicStopsOnlyItself(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	good, missing := f.topic(t, name("good"), 3), name("missing")
	f.insert(t, good, "first", `{}`)
	e := f.start(t, relay.Config{})
	await.Until(t, "the first event is published", func() bool { return f.pending(t) == 0 })
	for n := range 200 {
		f.insert(t, []string{good, missing}[n%2], fmt.Sprintf("k%d", n%10), fmt.Sprintf(`{"n":%d}`, n))
	}
	await.Until(t, "the good topic's events are published", func() bool { return f.pending(t) == 100 && len(e.Stats().HeldTopics) == 1 })
	f.topic(t, missing, 3)
	await.Until(t, "everything is published", func() bool { return f.pending(t) == 0 })
	for _, topic := range []string{good, missing} {
		if repeats := f.compareOrder(t, topic); repeats != 0 {
			t.Errorf("%d records of %s came twice", repeats, topic)
		}
	}
}

func TestBeforeTheFirstPublicationAMissingTopicEndsTheRelay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert(t, name("mistyped"), "k", `{}`)
	_, stderr, code := f.outbox(t, "relay")
	if code != 1 || !strings.Contains(stderr, "UNKNOWN_TOPIC_OR_PARTITION") || !strings.Contains(stderr, "mistyped") {
		t.Errorf("relay ended with %d and said %s", code, stderr)
	}
}

func TestOnceReportsWhatRemains(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic, missing := f.topic(t, name("once"), 3, "max.message.bytes", "5000"), name("missing")
	f.insert(t, topic, "ok", `{}`)
	large := f.insert(t, topic, "large", fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("x", 6000)))
	f.insert(t, missing, "k", `{}`)
	open, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Rollback(t.Context())
	if _, err := open.Exec(t.Context(), seedSQL, 1, topic); err != nil {
		t.Fatal(err)
	}
	f.insert(t, topic, "later", `{}`)
	stdout, stderr, code := f.outbox(t, "relay", "--once")
	if code != 1 {
		t.Errorf("ended with %d, want 1\n%s", code, stderr)
	}
	for _, want := range []string{"published 2 events", large.String(), "MESSAGE_TOO_LARGE", missing, "1 writing transaction"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the report does not say %q:\n%s", want, stdout)
		}
	}
}

// Whatever a row holds, it stops its own key and nothing else.
func TestRowsOfRubbishStopNobodyElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("rubbish"), 3)
	f.insert(t, topic, "first", `{}`)
	e := f.start(t, relay.Config{})
	await.Until(t, "the first event is published", func() bool { return f.pending(t) == 0 })
	rubbish := []struct{ topic, key, payload string }{
		{"", "k", `{}`},
		{"..", "k", `{}`},
		{"a b", "k", `{}`},
		{strings.Repeat("x", 250), "k", `{}`},
		{strings.Repeat("x", 33_000), "k", `{}`},
		{strings.Repeat("ü", 33_000), strings.Repeat("k", 10_000), `{}`},
		{topic, strings.Repeat("k", 1_100_000), `{}`},
		{topic, "large", fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("x", 2_000_000))},
	}
	ids := make([]uuid.UUID, len(rubbish))
	for i, r := range rubbish {
		ids[i] = f.insert(t, r.topic, r.key, r.payload)
		f.insert(t, r.topic, r.key, `{"follower":true}`)
		f.insert(t, topic, "good", `{}`)
	}
	f.db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at)
SELECT gen_random_uuid(), 'Order', a, 'order.changed.v1', p::jsonb, $1, 'odd', a::timestamptz
FROM (VALUES ('infinity', '1e1000'), ('-infinity', 'null'), ('0001-01-01 BC', '""'), ('epoch', '[[[[[]]]]]')) v(a, p)`, topic)
	await.Until(t, "the good ones are published and the others parked", func() bool {
		return f.pending(t) == 2*len(rubbish) && f.count(t, "SELECT count(*) FROM outbox.parked_key") == len(rubbish)
	})
	if errs := e.Stats().Errors; errs[relay.ClassOutage]+errs[relay.ClassTopic]+errs[relay.ClassUnknown] != 0 {
		t.Errorf("errors of other classes: %v", errs)
	}
	if stdout, stderr, code := f.outbox(t, "status"); code != 0 {
		t.Errorf("status ended with %d\n%s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := f.outbox(t, "events", "skip", ids[0].String(), "--reason", "it has no topic"); code != 0 {
		t.Errorf("skip ended with %d\n%s%s", code, stdout, stderr)
	}
}
