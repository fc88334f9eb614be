//go:build integration

package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// orders are the writer's lines: keys of many kinds, confirmed three times each, and as many confirmations that are rolled back.
func orders() (lines string, confirmed int) {
	keys := []string{"order with spaces", "заказ 7", `quote"'\`, "😀", strings.Repeat("long", 50)}
	for i := range 30 {
		keys = append(keys, fmt.Sprintf("order-%d", i))
	}
	var all strings.Builder
	for range 3 {
		for _, key := range keys {
			fmt.Fprintf(&all, "%s\nrollback %s\n", key, key)
			confirmed++
		}
	}
	return all.String(), confirmed
}

func wantRows(t *testing.T, rows []row, want int) {
	t.Helper()
	if len(rows) != want {
		t.Fatalf("rows in outbox_event: got %d, want the %d of committed transactions", len(rows), want)
	}
}

func TestWhatTypeORMCommitsReachesKafkajs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.outbox("migrate", "up")
	_, err := w.conn.Exec(t.Context(), `CREATE TABLE orders (
		id text PRIMARY KEY, customer_id text NOT NULL, total_amount numeric(12,2) NOT NULL, status text NOT NULL, confirmed_at timestamptz)`)
	if err != nil {
		t.Fatal(err)
	}
	lines, confirmed := orders()
	w.exec(lines, "node", "dist/write.js")
	wantRows(t, w.rows(), confirmed)

	w.outbox("relay", "--once")
	records := w.consume()
	w.wantSame(records, w.rows())
	for _, r := range records {
		var payload struct{ EventID, AggregateID string }
		if err := json.Unmarshal([]byte(r.Parsed), &payload); err != nil {
			t.Fatal(err)
		}
		if payload.EventID != r.Headers[0][1] || payload.AggregateID != r.Key {
			t.Errorf("payload of key %q: event id %s of aggregate %q, want %s", r.Key, payload.EventID, payload.AggregateID, r.Headers[0][1])
		}
	}
}

// synchronize makes bigserial and varchar of the entity, and each start of the service drops the partial index again.
func TestATableThatTypeORMSynchronizesIsAccepted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec("", "node", "dist/write.js", "--synchronize")
	w.outbox("migrate", "up")
	for range 2 {
		lines, _ := orders()
		w.exec(lines, "node", "dist/write.js", "--synchronize")
		w.outbox("relay", "--once")
	}
	_, confirmed := orders()
	wantRows(t, w.rows(), 2*confirmed)
	w.wantSame(w.consume(), w.rows())
}

// vector is one event as the reference service's own relay put it into Kafka.
type vector struct {
	PayloadText  string `json:"payload_text"`
	Value        []byte `json:"value_b64"`
	EventID      string `json:"event_id"`
	EventType    string `json:"event_type"`
	PartitionKey string `json:"partition_key"`
	Partition    int    `json:"partition"`
}

func vectors(t *testing.T) []vector {
	t.Helper()
	file, err := os.Open("../kafka/testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []vector
	dec := json.NewDecoder(bufio.NewReader(file))
	for dec.More() {
		var v vector
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// A kafkajs consumer cannot tell the relay from the one that it replaces: same partition, key and headers, and JSON.parse gives the same.
func TestAConsumerSeesWhatTheReferenceServiceSent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.outbox("migrate", "up")
	want := map[string]vector{}
	for _, v := range vectors(t) {
		want[v.EventID] = v
		_, err := w.conn.Exec(t.Context(), `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
			VALUES ($1, 'Document', '1', $2, $3::text::jsonb, $4, $5)`, v.EventID, v.EventType, v.PayloadText, w.topic, v.PartitionKey)
		if err != nil {
			t.Fatalf("insert %s: %v", v.EventID, err)
		}
	}
	w.outbox("relay", "--once")
	records := w.consume()
	w.wantSame(records, w.rows())
	for _, r := range records {
		v := want[r.Headers[0][1]]
		if r.Partition != v.Partition {
			t.Errorf("key %q: in partition %d, the reference's was in %d", r.Key, r.Partition, v.Partition)
		}
		if r.Parsed != string(v.Value) {
			t.Errorf("event %s: JavaScript reads %s, of the reference's %s", v.EventID, r.Parsed, v.Value)
		}
	}
}
