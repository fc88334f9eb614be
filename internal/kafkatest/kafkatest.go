// Package kafkatest reads topics for tests, of a real broker or a fake one, and compares them with the table that they were published from.
package kafkatest

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
)

// Records returns everything that is in the topic now, each partition in its order.
func Records(t testing.TB, brokers []string, topic string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), await.Limit)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	var records []*kgo.Record
	for int64(len(records)) < left {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s: %v after %d of %d records", topic, err, len(records), left)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// EventIDs returns the header x-event-id of each record.
func EventIDs(records []*kgo.Record) []uuid.UUID {
	ids := make([]uuid.UUID, len(records))
	for i, r := range records {
		ids[i] = uuid.MustParse(string(r.Headers[0].Value))
	}
	return ids
}

// ByKey returns the event ids of each key, first deliveries only, and how many came again.
func ByKey(records []*kgo.Record) (keys map[string][]uuid.UUID, repeats int) {
	keys, seen := map[string][]uuid.UUID{}, map[uuid.UUID]bool{}
	for i, id := range EventIDs(records) {
		if seen[id] {
			repeats++
			continue
		}
		seen[id] = true
		key := string(records[i].Key)
		keys[key] = append(keys[key], id)
	}
	return keys, repeats
}

// querier is a connection or a pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// InTable returns the event ids of each key of the topic in outbox_event, in the order of the rows' ids.
func InTable(t testing.TB, db querier, topic string) map[string][]uuid.UUID {
	t.Helper()
	rows, err := db.Query(t.Context(), "SELECT partition_key, array_agg(event_id ORDER BY id) FROM outbox_event WHERE topic = $1 GROUP BY 1", topic)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string][]uuid.UUID{}
	var key string
	var ids []uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&key, &ids}, func() error {
		keys[key] = slices.Clone(ids)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return keys
}

// Compare fails the test unless there are the same keys on both sides, each with the same events in the same order.
func Compare(t testing.TB, topic string, got, want map[string][]uuid.UUID) {
	t.Helper()
	for key, ids := range want {
		if !slices.Equal(got[key], ids) {
			t.Errorf("key %q of topic %s\ngot  %v\nwant %v", key, topic, got[key], ids)
		}
	}
	if len(got) != len(want) {
		t.Errorf("topic %s holds %d keys, the table %d", topic, len(got), len(want))
	}
}
