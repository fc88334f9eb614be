//go:build integration

package interop

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/jackc/pgx/v5"
)

// record is what the consumer prints of one record.
type record struct {
	Partition        int
	KafkajsPartition int
	Offset           int64
	Key              string
	Headers          [][2]string // in the order of the record
	Text             string      // the value
	Parsed           string      // JSON.stringify(JSON.parse(value))
}

// consume returns all of the topic's records, those of a partition in their order.
func (w *world) consume() []record {
	w.t.Helper()
	var records []record
	dec := json.NewDecoder(strings.NewReader(w.exec("", "node", "dist/consume.js", w.topic)))
	for dec.More() {
		var r record
		if err := dec.Decode(&r); err != nil {
			w.t.Fatalf("read the consumer's output: %v", err)
		}
		records = append(records, r)
	}
	return records
}

// row is an event as the table holds it.
type row struct {
	EventID      string
	EventType    string
	PartitionKey string
	Payload      string
	Published    bool
}

// rows returns the table's rows in the order of their ids.
func (w *world) rows() []row {
	w.t.Helper()
	found, err := w.conn.Query(w.t.Context(), `SELECT event_id::text AS event_id, event_type, partition_key, payload::text AS payload,
		published_at IS NOT NULL AS published FROM outbox_event ORDER BY id`)
	if err != nil {
		w.t.Fatalf("read outbox_event: %v", err)
	}
	rows, err := pgx.CollectRows(found, pgx.RowToStructByName[row])
	if err != nil {
		w.t.Fatalf("read outbox_event: %v", err)
	}
	return rows
}

// wantSame compares the records with the rows: every key has exactly the records of its rows, in the order of their ids.
func (w *world) wantSame(records []record, rows []row) {
	w.t.Helper()
	recordsOf, rowsOf := map[string][]record{}, map[string][]row{}
	for _, r := range records {
		recordsOf[r.Key] = append(recordsOf[r.Key], r)
		if r.Partition != r.KafkajsPartition {
			w.t.Errorf("key %q: in partition %d, kafkajs would choose %d", r.Key, r.Partition, r.KafkajsPartition)
		}
	}
	for _, r := range rows {
		rowsOf[r.PartitionKey] = append(rowsOf[r.PartitionKey], r)
		if !r.Published {
			w.t.Errorf("event %s: published_at is not set", r.EventID)
		}
	}
	for key, rows := range rowsOf {
		w.wantSameKey(key, recordsOf[key], rows)
	}
	if len(records) != len(rows) {
		w.t.Errorf("%d records for %d rows", len(records), len(rows))
	}
}

func (w *world) wantSameKey(key string, records []record, rows []row) {
	w.t.Helper()
	if len(records) != len(rows) {
		w.t.Errorf("key %q: %d records for %d rows", key, len(records), len(rows))
		return
	}
	for i, row := range rows {
		got, want := records[i].Headers, [][2]string{{"x-event-id", row.EventID}, {"x-event-type", row.EventType}}
		if !reflect.DeepEqual(got, want) {
			w.t.Errorf("key %q, record %d: headers %q, want %q", key, i, got, want)
		}
		if !sameJSON(w, records[i].Text, row.Payload) {
			w.t.Errorf("key %q, record %d: value %s, want %s", key, i, records[i].Text, row.Payload)
		}
	}
}

// sameJSON tells whether two texts say the same, with every digit of their numbers.
func sameJSON(w *world, a, b string) bool {
	return reflect.DeepEqual(decode(w, a), decode(w, b))
}

func decode(w *world, text string) (v any) {
	w.t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		w.t.Fatalf("parse %s: %v", text, err)
	}
	return v
}
