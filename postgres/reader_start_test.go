package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

func TestBacklogComesInPagesInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(1000)
	b.exec("UPDATE outbox_event SET published_at = now() WHERE id % 3 = 0")
	b.start()
	var got []int64
	for b.walking() {
		batch := b.batch(70)
		if len(batch.Events) > 70 {
			t.Fatalf("%d events in a batch of 70", len(batch.Events))
		}
		if !batch.More || batch.Walking != b.walking() {
			t.Fatalf("in the backlog, at %d: More is %t, Walking %t", b.pos, batch.More, batch.Walking)
		}
		for _, e := range batch.Events {
			got = append(got, e.ID)
		}
	}
	want := slices.DeleteFunc(upTo(1, 1000), func(id int64) bool { return id%3 == 0 })
	if !slices.Equal(got, want) {
		t.Fatalf("got %d events, want %d in order", len(got), len(want))
	}
	if batch := b.batch(70); len(batch.Events) > 0 || batch.More || batch.Walking {
		t.Fatalf("after the backlog: %+v", batch)
	}
}

// New events of old keys must wait until the walk has come to them.
func TestNothingOvertakesTheBacklog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(100)
	b.start()
	var all []int64
	for range 10 {
		b.insert("key 99")
		all = append(all, b.readLimit(30)...)
	}
	all = append(all, b.drain(30)...)
	if !slices.Equal(all, upTo(1, 110)) || b.total != len(all) {
		t.Fatalf("%d events, each for the first time in the order %v", b.total, all)
	}
}

func TestWriterThatIsOpenAtStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(5)
	early := b.begin()
	early.insert("a")
	b.insert("c")
	b.start()
	b.wantDrained(1, 2, 3, 4, 5, 7)
	early.insert("a")
	b.insert("c")
	b.wantRead(9)
	early.commit()
	b.insert("a")
	b.wantRead(6, 8, 10)
	b.wantNoHoles()
}

// The writer commits while the walk is below its id, or above it; its key's next event lies above the cursor.
func TestWriterThatCommitsDuringTheWalkKeepsItsPlace(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]int{"walk is below": 3, "walk is above": 8} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.fill(5)
			early := b.begin()
			early.insert("a")
			b.fill(10)
			b.start()
			first := b.readLimit(page)
			early.commit()
			b.insert("a")
			all := append(first, b.drain(3)...)
			if slices.Index(all, 6) > slices.Index(all, 17) || len(all) != 17 {
				t.Fatalf("order %v, want all of 1 to 17 and 6 before 17", all)
			}
			b.wantNoHoles()
		})
	}
}

// What is still in flight is not carried over again at every look below Start's cursor.
func TestLookBelowBringsOnlyWhatIsLate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(500)
	early := b.begin()
	early.insert("a")
	b.start()
	b.wantDrained(upTo(1, 500)...)
	before := b.count.finds
	early.commit()
	b.wantDrained(501)
	if finds := b.count.finds - before; finds > 3 {
		t.Errorf("%d rows were carried over to find one late event", finds)
	}
	b.wantNoHoles()
}

// A transaction that had no xid when it was seen can have any later one.
func TestWriterWithoutXidAtStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	early := b.begin()
	early.exec("LOCK TABLE outbox_event IN ROW EXCLUSIVE MODE")
	b.insert("a")
	early.exec("SELECT nextval('outbox_event_id_seq')")
	b.start()
	b.wantRead(1)
	for range 4 {
		b.wantRead()
	}
	early.exec(`INSERT INTO outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
OVERRIDING SYSTEM VALUE VALUES (2, gen_random_uuid(), 'Order', 'a', 't', '{}', 'order-service.order', 'b')`)
	b.wantRead()
	early.commit()
	b.insert("b")
	b.wantRead(2, 3)
	b.wantNoHoles()
}

// A transaction commits more rows below the position than a look may bring: everything is walked through in pages.
func TestHugeLateTransactionComesInPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	huge := b.begin()
	huge.exec(`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', 'a', 't', '{}', 'order-service.order', 'a' FROM generate_series(1, $1::int)`, maxFinds+500)
	b.insert("c")
	b.wantRead(maxFinds + 501)
	huge.commit()
	b.insert("a")
	var got []int64
	for len(got) < maxFinds+501 {
		batch := b.batch(3000)
		if len(batch.Events) > 3000 {
			t.Fatalf("a batch of %d events, limit 3000", len(batch.Events))
		}
		for _, e := range batch.Events {
			if !b.handed[e.Ref()] {
				got = append(got, e.ID)
			}
			b.handed[e.Ref()] = true
		}
	}
	want := append(upTo(1, maxFinds+500), maxFinds+502)
	if !slices.Equal(got, want) {
		t.Fatalf("%d events, want %d in order", len(got), len(want))
	}
	b.wantNoHoles()
}

func TestParkedKeysAndHeldTopicsAreNotCarriedOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(50)
	b.exec("UPDATE outbox_event SET topic = 'held.topic' WHERE id > 40")
	b.exec(`INSERT INTO outbox.parked_key (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason)
SELECT $1, topic, `+pg.KeyHashSQL("topic", "partition_key")+`, partition_key, 0, id, event_id, event_type, 'X', 'x' FROM outbox_event WHERE id <= 20`, b.db.Source)
	b.startHolding(holding{topics: []string{"held.topic"}})
	b.wantDrained(upTo(21, 40)...)
	b.exec("DELETE FROM outbox.parked_key WHERE partition_key = 'key 7'")
	b.Reread([]relay.Key{key("key 7")}, []string{"held.topic"}, nil)
	b.wantDrained(append([]int64{7}, upTo(41, 50)...)...)
}

func TestEmptyTableWithAHighSequence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec("SELECT setval('outbox_event_id_seq', 5000000000)")
	b.start()
	b.wantRead()
	b.insert("a")
	b.insert("b")
	b.wantRead(5000000001, 5000000002)
	b.wantNoHoles()
}

// The lowest id there is, is where positions begin.
func TestTheLowestIDIsRead(t *testing.T) {
	t.Parallel()
	const lowest = `INSERT INTO outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
OVERRIDING SYSTEM VALUE VALUES (-9223372036854775808, gen_random_uuid(), 'Order', 'a', 't', '{}', 'order-service.order', 'a')`
	t.Run("at start", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.exec(lowest)
		b.insert("a")
		b.start()
		b.wantDrained(beginning, 1)
	})
	t.Run("in pages of one", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.exec(lowest)
		b.insert("a")
		b.insert("b")
		b.start()
		var got []int64
		for range 10 {
			got = append(got, b.readLimit(1)...)
			b.exec("UPDATE outbox_event SET published_at = now() WHERE id = ANY ($1)", got)
		}
		if !slices.Equal(got, []int64{beginning, 1, 2}) {
			t.Errorf("read %v, want each once", got)
		}
	})
	t.Run("by the sweep", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.insert("a")
		b.start()
		b.wantDrained(1)
		b.exec(lowest)
		b.wantDrained()
		b.wantSweep(1)
		b.wantDrained(beginning)
	})
	t.Run("with its key", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.exec(lowest)
		b.start()
		b.wantDrained(beginning)
		b.forgetAll("a")
		b.Reread([]relay.Key{key("a")}, nil, nil)
		b.wantDrained(beginning)
	})
}

// An id above the sequence must not move the cursor: the ids below it are still to come.
func TestIDAboveTheSequenceHidesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const huge = `INSERT INTO outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
OVERRIDING SYSTEM VALUE VALUES ($1, gen_random_uuid(), 'Order', 'a', 't', '{}', 'order-service.order', 'a')`
	b.insert("a")
	b.exec(huge, 9_000_000_000)
	b.start()
	b.wantDrained(1, 9_000_000_000)
	b.insert("a")
	b.wantRead(2)
	// One that comes while the reader runs is left to the sweep.
	b.exec(huge, 9_000_000_001)
	b.wantDrained()
	b.wantSweep(1)
	b.wantDrained(9_000_000_001)
	b.insert("a")
	b.wantDrained(3)
}

func TestRestartedSequenceBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"truncate": "TRUNCATE outbox_event RESTART IDENTITY",
		"setval":   "DELETE FROM outbox_event; SELECT setval('outbox_event_id_seq', 1, false)",
		"alter":    "DELETE FROM outbox_event; ALTER TABLE outbox_event ALTER COLUMN id RESTART",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.start()
			b.fill(10)
			b.wantDrained(upTo(1, 10)...)
			b.db.Exec(t, sql)
			b.insert("a")
			b.wantDrained(1)
			b.insert("a")
			b.wantDrained(2)
		})
	}
}

// The sequence has overtaken the old cursor before anybody looked.
func TestRestartIsNoticedThoughTheSequenceHasPassedTheCursor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.fill(5)
	b.wantDrained(upTo(1, 5)...)
	b.exec("TRUNCATE outbox_event RESTART IDENTITY")
	b.fill(9)
	b.wantDrained(upTo(1, 9)...)
}

// With CACHE a session uses ids that it drew long ago. Their order is lost, the events are not.
func TestCachedIDsAreNotLost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec("ALTER SEQUENCE outbox_event_id_seq CACHE 10")
	b.start()
	b.wantRead()
	other := b.db.Conn(t)
	b.insert("a")
	if id := insertEvent(t, other, "b"); id != 11 {
		t.Fatalf("the other session drew id %d, want 11", id)
	}
	b.wantDrained(1, 11)
	b.insert("a")
	b.wantDrained()
	b.wantSweep(1)
	b.wantDrained(2)
}

func TestColumnsMayComeAndGoWhileReading(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	for i, sql := range []string{"SELECT 1", "ALTER TABLE outbox_event ADD COLUMN x text DEFAULT 'x'", "ALTER TABLE outbox_event DROP COLUMN x"} {
		b.exec(sql)
		b.insert("a")
		b.wantRead(int64(i + 1))
	}
}

func TestStrictDefaultIsolationChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec("ALTER DATABASE " + b.db.Name + " SET default_transaction_isolation = 'serializable'")
	strict := benchOn(t, b.db)
	strict.start()
	late := b.begin()
	late.insert("a")
	b.insert("c")
	strict.wantRead(2)
	late.commit()
	b.insert("a")
	strict.wantRead(1, 3)
	strict.wantNoHoles()
}

func TestEventsAreReadWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec("ALTER TABLE outbox_event ADD COLUMN headers jsonb, ALTER COLUMN topic TYPE varchar(200), ALTER COLUMN payload TYPE json USING payload::json")
	b.row.Headers = true
	b.start()
	b.exec(`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at, headers) VALUES
('00000000-0000-0000-0000-000000000001', 'Order', '1', 'order.confirmed.v1', '{"n":  1.50}', 'order-service.order', '', '2026-01-02 03:04:05.678901+00', '{"trace": "x"}'),
('00000000-0000-0000-0000-000000000002', 'Order', '1', 'order.confirmed.v1', '"ключ"', 'order-service.order', 'ключ', 'infinity', NULL),
('00000000-0000-0000-0000-000000000003', 'Order', '1', 'order.confirmed.v1', to_jsonb(repeat('x', 20000)), 'order-service.order', 'k', '0001-01-01 00:00:00+00', NULL),
('00000000-0000-0000-0000-000000000004', 'Order', '1', 'order.confirmed.v1', 'null', 'order-service.order', 'k', '0044-03-15 00:00:00.5+00 BC', NULL),
('00000000-0000-0000-0000-000000000005', 'Order', '1', 'order.confirmed.v1', '0', 'order-service.order', 'k', '-infinity', NULL)`)
	events := b.batch(10).Events
	if len(events) != 5 {
		t.Fatalf("%d events, want 5", len(events))
	}
	first := *events[0]
	want := relay.Event{ID: 1, EventID: first.EventID, Type: "order.confirmed.v1", Topic: "order-service.order",
		Payload: []byte(`{"n":  1.50}`), Headers: []byte(`{"trace": "x"}`), CreatedAt: first.CreatedAt}
	same(t, "the first event", first, want)
	same(t, "its event id", first.EventID.String(), "00000000-0000-0000-0000-000000000001")
	same(t, "its time", first.CreatedAt.UTC(), time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC))
	same(t, "the second key and payload", events[1].PartitionKey+string(events[1].Payload), `ключ"ключ"`)
	if events[1].Headers != nil || !events[1].CreatedAt.IsZero() || !events[4].CreatedAt.IsZero() {
		t.Errorf("headers %v, times %v and %v; want nil and zero", events[1].Headers, events[1].CreatedAt, events[4].CreatedAt)
	}
	same(t, "the length of a long payload", len(events[2].Payload), 20002)
	same(t, "the year 1", events[2].CreatedAt.UTC(), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
	same(t, "the Ides of March", events[3].CreatedAt.UTC(), time.Date(-43, 3, 15, 0, 0, 0, 5e8, time.UTC))
}

// Rows that somebody else has settled are no holes.
func TestRowsSettledByOthersArePassed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	late := b.begin()
	late.insert("a")
	b.fill(4)
	b.exec("UPDATE outbox_event SET published_at = now() WHERE id < 4")
	b.wantRead(4, 5)
	late.commit()
	b.exec("UPDATE outbox_event SET published_at = now() WHERE id = 1")
	b.wantNoHoles()
}

func TestLimitCutsTheHead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	b.fill(10)
	if batch := b.batch(4); len(batch.Events) != 4 || !batch.More {
		t.Fatalf("%d events, More %t; want 4 and more", len(batch.Events), batch.More)
	}
	if batch := b.batch(7); len(batch.Events) != 6 || batch.More {
		t.Fatalf("%d events, More %t; want 6 and no more", len(batch.Events), batch.More)
	}
}

func TestOpenWritersAreCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	one, two := b.begin(), b.begin()
	one.insert("a")
	two.insert("b")
	b.insert("c")
	b.wantRead(3)
	if n := b.batch(10).OpenWriters; n != 2 {
		t.Errorf("%d open writers, want 2", n)
	}
	one.rollback()
	two.rollback()
	b.wantNoHoles()
	if n := b.batch(10).OpenWriters; n != 0 {
		t.Errorf("%d open writers, want none", n)
	}
}

func TestPartitionedTableIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Exec(t, `DROP TABLE outbox_event;
CREATE SEQUENCE outbox_event_id_seq;
CREATE TABLE outbox_event (id bigint NOT NULL DEFAULT nextval('outbox_event_id_seq') PRIMARY KEY, event_id uuid NOT NULL, aggregate_type text, aggregate_id text,
    event_type text, payload jsonb, topic text, partition_key text, created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF outbox_event FOR VALUES FROM (1) TO (4);
CREATE TABLE part_2 PARTITION OF outbox_event FOR VALUES FROM (4) TO (1000);
CREATE INDEX ON outbox_event (id) WHERE published_at IS NULL`)
	b.start()
	b.wantRead()
	late := b.begin()
	late.exec(`INSERT INTO part_1 (event_id, topic, partition_key, payload, event_type) VALUES (gen_random_uuid(), 'order-service.order', 'a', '{}', 't')`)
	b.fill(4)
	b.wantRead(2, 3, 4, 5)
	b.wantRead()
	late.commit()
	b.insert("a")
	b.wantRead(1, 6)
	b.wantNoHoles()
}

// A batch ends in the midst of a transaction, and the relay with it. Nothing of the rest is taken for done.
func TestRestartInTheMidstOfATransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(250)
	b.start()
	if got := b.readLimit(100); !slices.Equal(got, upTo(1, 100)) {
		t.Fatalf("the first batch is %v", got)
	}
	b.exec("UPDATE outbox_event SET published_at = now() WHERE id <= 60")
	next := benchOn(t, b.db)
	next.start()
	next.wantDrained(upTo(61, 250)...)
}

func TestAReadTellsOfTheServersClockAndOfHoles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	open := b.begin()
	open.insert("a")
	b.insert("b")
	before := b.clock()
	batch := b.batch(10)
	after := b.clock()
	if batch.Now.Before(before) || batch.Now.After(after) {
		t.Errorf("the clock says %v, want a time from %v to %v", batch.Now, before, after)
	}
	if batch.Holes != 1 {
		t.Errorf("%d holes, want 1", batch.Holes)
	}
	open.rollback()
	b.wantNoHoles()
	if n := b.batch(10).Holes; n != 0 {
		t.Errorf("%d holes, want none", n)
	}
}

// clock asks the server, which tells microseconds.
func (b *bench) clock() (now time.Time) {
	b.Helper()
	if err := b.plain.QueryRow(b.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
		b.Fatal(err)
	}
	return now
}
