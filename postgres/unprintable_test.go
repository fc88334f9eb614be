package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/relay"
)

// monster is a document of 90 kB whose text is larger than 1 GB.
const monster = `(SELECT jsonb_agg(n) FROM (SELECT 1e131071::numeric AS n FROM generate_series(1, 10000)) a)`

func (b *bench) readEvents() map[string]*relay.Event {
	b.Helper()
	batch, err := b.Read(b.Context(), 100)
	if err != nil {
		b.Fatal(err)
	}
	byKey := map[string]*relay.Event{}
	for _, e := range batch.Events {
		byKey[e.PartitionKey] = e
	}
	return byKey
}

func TestARowThatCannotBePrintedStopsNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	b.db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', k, 'order.changed.v1', CASE k WHEN 'bad' THEN `+monster+` ELSE '{"n": 1}' END, 't', k
FROM unnest(ARRAY['a', 'bad', 'c']) k`)
	events := b.readEvents()
	for _, key := range []string{"a", "c"} {
		if e := events[key]; e == nil || string(e.Payload) != `{"n": 1}` {
			t.Errorf("key %s: %+v, want its event whole", key, e)
		}
	}
	if e := events["bad"]; e == nil || e.Payload != nil {
		t.Errorf("the bad row: %+v, want an event without payload, for the publisher to refuse", e)
	}
	// Mended and released, it is read as it is now.
	b.db.Exec(t, `UPDATE outbox_event SET payload = '{"n": 2}' WHERE partition_key = 'bad'`)
	b.Reread([]relay.Key{{Topic: "t", PartitionKey: "bad"}}, nil, nil)
	if e := b.readEvents()["bad"]; e == nil || string(e.Payload) != `{"n": 2}` {
		t.Errorf("the mended row: %+v, want its payload", e)
	}
}

// Neither one large row nor many may cost the relay its memory.
func TestLargeRowsAreReadFewAtATimeAndHugeOnesNotAtAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', i::text, 'order.changed.v1', to_jsonb(repeat('x', CASE i WHEN 5 THEN 33554431 ELSE 3000000 END)), 't', i::text
FROM generate_series(1, 12) i`)
	b.start()
	read := 0
	for range 100 {
		batch, err := b.Read(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for _, e := range batch.Events {
			if read++; e.ID != int64(read) {
				t.Fatalf("event %d comes as number %d", e.ID, read)
			}
			if got, want := len(e.Payload), 3_000_002; e.ID != 5 && got != want || e.ID == 5 && e.Payload != nil {
				t.Errorf("event %d has %d bytes of payload", e.ID, got)
			}
			bytes += len(e.Payload)
		}
		if bytes > readBytes+3_000_002 {
			t.Errorf("one read has brought %d bytes", bytes)
		}
		if !batch.More && !batch.Walking {
			break
		}
	}
	if read != 12 {
		t.Errorf("%d events were read, want 12", read)
	}
	// The same above the cursor.
	b.settleAll()
	b.db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', i::text, 'order.changed.v1', to_jsonb(repeat('x', 3000000)), 't', i::text FROM generate_series(1, 9) i`)
	for range 100 {
		batch, err := b.Read(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range batch.Events {
			if read++; e.ID != int64(read) {
				t.Fatalf("event %d comes as number %d", e.ID, read)
			}
		}
		if len(batch.Events) > 4 {
			t.Errorf("one read has brought %d large events", len(batch.Events))
		}
		if !batch.More && len(batch.Events) == 0 {
			break
		}
	}
	if read != 21 {
		t.Errorf("%d events were read, want 21", read)
	}
	b.wantNoHoles()
}

// A table that another tool made may allow NULL where the contract does not.
func TestARowWithoutValuesIsAnEventAllTheSame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Exec(t, `ALTER TABLE outbox_event ALTER event_id DROP NOT NULL, ALTER payload DROP NOT NULL, ALTER topic DROP NOT NULL,
ALTER partition_key DROP NOT NULL, ALTER event_type DROP NOT NULL, ALTER created_at DROP NOT NULL`)
	b.start()
	b.wantRead()
	b.db.Exec(t, `INSERT INTO outbox_event (aggregate_type, aggregate_id, created_at) VALUES ('Order', '1', NULL)`)
	b.insert("a")
	batch, err := b.Read(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(batch.Events); n != 2 {
		t.Fatalf("%d events, want 2", n)
	}
	if e := batch.Events[0]; e.EventID != uuid.Nil || e.Payload != nil || e.Topic != "" || !e.CreatedAt.IsZero() {
		t.Errorf("got %+v, want an event of zeros, for the publisher to refuse", e)
	}
	known := func(ref relay.Ref) bool {
		return slices.ContainsFunc(batch.Events, func(e *relay.Event) bool { return e.Ref() == ref })
	}
	if found, err := b.Sweep(t.Context(), time.Minute, known, nil); found != 0 || err != nil {
		t.Errorf("the sweep found %d, %v", found, err)
	}
}
