//go:build integration

package pooler_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// records returns everything in the topic, partition by partition.
func (f *fixture) records(t *testing.T) []*kgo.Record {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
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
			t.Fatalf("read %s: %v", topic, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// firsts returns the event ids of each key in the order of their first deliveries.
func (f *fixture) firsts(t *testing.T) map[string][]uuid.UUID {
	t.Helper()
	keys, seen := map[string][]uuid.UUID{}, map[uuid.UUID]bool{}
	for _, r := range f.records(t) {
		id := uuid.MustParse(string(r.Headers[0].Value))
		if !seen[id] {
			seen[id] = true
			keys[string(r.Key)] = append(keys[string(r.Key)], id)
		}
	}
	return keys
}

// checkOrder fails the test unless the topic holds, for each key, exactly the events of the table in the order of their ids.
func (f *fixture) checkOrder(t *testing.T) {
	t.Helper()
	got := f.firsts(t)
	c := f.db.Conn(t)
	rows, err := c.Query(t.Context(), "SELECT partition_key, array_agg(event_id ORDER BY id) FROM outbox_event WHERE topic = $1 GROUP BY 1", topic)
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	var key string
	var want []uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&key, &want}, func() error {
		keys++
		if !slices.Equal(got[key], want) {
			t.Errorf("key %q\ngot  %v\nwant %v", key, got[key], want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if keys == 0 || keys != len(got) {
		t.Errorf("the topic holds %d keys, the table %d", len(got), keys)
	}
}
