package postgres

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/relay"
)

// bench is a reader with a database of its own. It asks pg_locks before every read, so what a test sees depends on no clock.
type bench struct {
	*testing.T
	db *pgtest.DB
	*reader
	// handed are the rows handed on so far; like the gate, it drops what it has.
	handed map[relay.Ref]bool
	// total counts the events that were handed on, the repeated ones as well.
	total int
	plain *pgx.Conn
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return benchOn(t, pgtest.New(t))
}

func benchOn(t *testing.T, db *pgtest.DB) *bench {
	t.Helper()
	read, locks := openSession(t, db), openSession(t, db)
	row := pg.Source{
		ID:       db.Source,
		Table:    pg.Table{Schema: "public", Name: "outbox_event"},
		Sequence: "public.outbox_event_id_seq",
		Lanes:    8,
	}
	b := &bench{T: t, db: db, handed: map[relay.Ref]bool{}, plain: db.Conn(t)}
	b.reader = newReader(read, locks, row, []int32{read.pid(), locks.pid()})
	askAlways(b.reader)
	return b
}

func openSession(t *testing.T, db *pgtest.DB) *session {
	t.Helper()
	s := newSession("test")
	err := s.repair(t.Context(), func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, db.URL) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// askAlways lets questions to pg_locks cost no time, so they are always due.
func askAlways(r *reader) {
	r.locks.every = 0
	r.locks.now = func() time.Time { return time.Unix(1, 0) }
}

// start begins with nothing held.
func (b *bench) start() {
	b.Helper()
	b.startHolding(holding{})
}

func (b *bench) startHolding(h relay.Held) {
	b.Helper()
	b.startLanes(h, allLanes...)
}

// startLanes begins with some of the lanes.
func (b *bench) startLanes(h relay.Held, lanes ...int32) {
	b.Helper()
	if err := b.reader.Start(b.Context(), h, lanes); err != nil {
		b.Fatal(err)
	}
}

// read reads once, and returns the ids that are handed on for the first time.
func (b *bench) read() []int64 { b.Helper(); return b.readLimit(1000) }

func (b *bench) readLimit(limit int) []int64 {
	b.Helper()
	ids := []int64{}
	for _, e := range b.batch(limit).Events {
		b.total++
		if !b.handed[e.Ref()] {
			b.handed[e.Ref()] = true
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func (b *bench) batch(limit int) relay.Batch {
	b.Helper()
	batch, err := b.reader.Read(b.Context(), limit)
	if err != nil {
		b.Fatal(err)
	}
	return batch
}

// wantRead reads once and compares what is new.
func (b *bench) wantRead(want ...int64) {
	b.Helper()
	if got := b.read(); !slices.Equal(got, want) {
		b.Fatalf("read %v, want %v; %s", got, want, b)
	}
}

// wantDrained reads until nothing comes any more, and compares all that is new.
func (b *bench) wantDrained(want ...int64) {
	b.Helper()
	if got := b.drain(1000); !slices.Equal(got, want) {
		b.Fatalf("read %v, want %v; %s", got, want, b)
	}
}

// drain reads until nothing comes any more. Three reads are enough to see a hole, to ask about it, and to look at it.
func (b *bench) drain(limit int) []int64 {
	b.Helper()
	all := []int64{}
	for idle := 0; idle < 3; {
		got := b.readLimit(limit)
		all = append(all, got...)
		if len(got) == 0 && !b.walking() && b.walk == nil && !b.beyondDue {
			idle++
		} else {
			idle = 0
		}
	}
	return all
}

// wantNoHoles reads until nothing comes any more, and checks that nothing new came and no hole is open.
func (b *bench) wantNoHoles() {
	b.Helper()
	b.wantDrained()
	if len(b.holes.groups) > 0 {
		b.Fatalf("holes are open: %s", b)
	}
}

func (b *bench) String() string {
	s := fmt.Sprintf("pos %d, cursor %d", b.pos, b.cursor)
	for _, g := range b.holes.groups {
		s += fmt.Sprintf(", holes %v below %d asked %t looked %t waiting for %v", g.spans, g.below, g.asked, g.looked, g.waits)
	}
	return s
}

func (b *bench) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.plain.Exec(b.Context(), sql, args...); err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
}

// insert writes an event in a transaction of its own.
func (b *bench) insert(key string) int64 { b.Helper(); return insertEvent(b.T, b.plain, key) }

// settleAll marks everything as published.
func (b *bench) settleAll() {
	b.Helper()
	b.exec("UPDATE outbox_event SET published_at = now() WHERE published_at IS NULL")
}

// writer is a service's connection with an open transaction.
type writer struct {
	t    *testing.T
	conn *pgx.Conn
}

// begin opens a transaction on a connection of its own.
func (b *bench) begin() *writer {
	b.Helper()
	w := &writer{b.T, b.db.Conn(b.T)}
	w.exec("BEGIN")
	return w
}

func (w *writer) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.conn.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

func (w *writer) insert(key string) int64 { w.t.Helper(); return insertEvent(w.t, w.conn, key) }
func (w *writer) commit()                 { w.t.Helper(); w.exec("COMMIT") }
func (w *writer) rollback()               { w.t.Helper(); w.exec("ROLLBACK") }

const insertSQL = `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES ($1, 'Order', $2, 'order.confirmed.v1', '{"n": 1}', 'order-service.order', $2) RETURNING id`

func insertEvent(t *testing.T, conn *pgx.Conn, key string) (id int64) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), insertSQL, uuid.New(), key).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// fill writes n events of n keys in one transaction: key 1, key 2 and so on.
func (b *bench) fill(n int) {
	b.Helper()
	b.exec(`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', i::text, 'order.confirmed.v1', '{"n": 1}', 'order-service.order', 'key ' || i FROM generate_series(1, $1::int) i`, n)
}

// holding is a gate that holds keys and topics.
type holding struct {
	keys   map[relay.Key]bool
	topics []string
}

func (h holding) HeldKey(k relay.Key) bool { return h.keys[k] }
func (h holding) HeldTopics() []string     { return h.topics }

func key(partitionKey string) relay.Key {
	return relay.Key{Topic: "order-service.order", PartitionKey: partitionKey}
}

// upTo returns from, from+1, … to.
func upTo(from, to int64) []int64 {
	ids := []int64{}
	for id := from; id <= to; id++ {
		ids = append(ids, id)
	}
	return ids
}
