package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/relay"
)

// row is a row of the table as a read has seen it. event is nil when the row is settled, or of no interest: then it is an id alone.
type row struct {
	id    int64
	event *relay.Event
}

// answer is what one read has brought, all of one snapshot.
type answer struct {
	server server
	// sequence is the file of the sequence, another one after each RESTART; top is the last id that it gave.
	sequence string
	top      int64
	snapshot snapshot
	// now is the server's clock.
	now time.Time
	// headers tells that the table has that column.
	headers bool
	// finds are rows in holes; page is of the walk; head is above the position; beyond is above the sequence. Each is sorted by id.
	finds, page, head, beyond []row
	// whole is how many rows came with their payload, bytes how much text that is. cut tells for each kind of rows that those behind were left out, because
	// of it or of the limit.
	whole, bytes int
	cut          [kindBeyond + 1]bool
	// wanted is how many rows of each kind came whole, limit how many may.
	wanted [kindBeyond + 1]int
	limit  int
}

// readBytes is how much text one read keeps, about; what is above it is read again. Finds in holes are kept whatever their size: they must be
// handed on in the snapshot of the head.
const readBytes = 8 << 20

// leaveOut tells whether a row is behind one that was left out, or is to be. Each kind gets at least one row, so that reading goes on; behind the lowest id there is, which is
// the beginning as well, it gets another one.
func (a *answer) leaveOut(kind int32, have []row) bool {
	if len(have) == 1 && have[0].id == beginning {
		return false
	}
	if a.bytes > readBytes && len(have) > 0 || a.wanted[kind] >= a.limit {
		a.cut[kind] = true
	}
	return a.cut[kind]
}

// fetch puts the question to the database.
func (r *reader) fetch(ctx context.Context, q *question) (*answer, error) {
	a := &answer{limit: q.limit}
	rows := &decoder{names: r.names}
	s := r.build(q)
	err := r.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return s.run(ctx, conn, func(v [][]byte) error { return a.take(v, rows) })
	})
	if unprintable(err) && !r.bare {
		if err := r.setAside(ctx, q); err != nil {
			return nil, fmt.Errorf("find the rows of %s that cannot be printed: %w", r.row.Table, err)
		}
		return r.fetch(ctx, q)
	}
	if err != nil {
		return nil, fmt.Errorf("read events of %s: %w", r.row.Table, err)
	}
	for _, rows := range [][]row{a.finds, a.page, a.head, a.beyond} {
		slices.SortFunc(rows, byID)
	}
	r.count.whole += a.whole
	return a, nil
}

func byID(a, b row) int {
	switch {
	case a.id < b.id:
		return -1
	case a.id > b.id:
		return 1
	}
	return 0
}

// take sorts one row of the result into the answer.
func (a *answer) take(v [][]byte, d *decoder) (err error) {
	kind := int32(binary.BigEndian.Uint32(v[0]))
	if kind == kindServer {
		return a.takeServer(v)
	}
	if kind != kindFind && a.leaveOut(kind, *a.rows(kind)) {
		return nil
	}
	got := row{id: int64Of(v[1])}
	if v[2] != nil {
		a.whole++
		a.wanted[kind]++
		a.bytes += len(v[6]) + len(v[7])
		got.event = d.event(got.id, v[2:])
	}
	rows := a.rows(kind)
	*rows = append(*rows, got)
	return nil
}

func (a *answer) rows(kind int32) *[]row {
	switch kind {
	case kindFind:
		return &a.finds
	case kindPage:
		return &a.page
	case kindHead:
		return &a.head
	}
	return &a.beyond
}

func (a *answer) takeServer(v [][]byte) (err error) {
	a.top = int64Of(v[1])
	a.sequence = string(v[3])
	a.headers = v[7] != nil
	a.server = server{started: timeOf(v[8]), recovery: v[4] == nil}
	if v[4] != nil {
		timeline, err := strconv.ParseInt(string(v[4]), 10, 32)
		if err != nil {
			return fmt.Errorf("parse timeline %q: %w", v[4], err)
		}
		a.server.timeline = int32(timeline)
	}
	micros, err := strconv.ParseInt(string(v[5]), 10, 64)
	if err != nil {
		return fmt.Errorf("parse the server's clock %q: %w", v[5], err)
	}
	a.now = time.UnixMicro(micros)
	a.snapshot, err = parseSnapshot(string(v[6]))
	return err
}

// maxNames bounds the strings that a reader keeps, for a table whose topics or types are without number.
const maxNames = 10_000

// slab is how much memory is taken at once for payloads, in bytes; slabEvents for events. An event that is kept for long keeps its slab.
const (
	slab       = 32 << 10
	slabEvents = 64
)

// decoder makes events out of rows with few allocations: names are shared, and payloads lie side by side.
type decoder struct {
	names  map[string]string
	bytes  []byte
	events []relay.Event
}

// event decodes a row whose columns are event_id, event_type, topic, partition_key, payload, headers, created_at and, where they are asked for, aggregate_type and aggregate_id.
func (d *decoder) event(id int64, v [][]byte) *relay.Event {
	if len(d.events) == 0 {
		d.events = make([]relay.Event, slabEvents)
	}
	e := &d.events[0]
	d.events = d.events[1:]
	e.ID = id
	copy(e.EventID[:], v[0])
	e.Type, e.Topic, e.PartitionKey = d.name(v[1]), d.name(v[2]), string(v[3])
	e.Payload, e.Headers = d.copy(v[4]), d.copy(v[5])
	e.CreatedAt = timeOf(v[6])
	if len(v) > len(columnNames) {
		e.Aggregate = relay.Aggregate{Type: d.name(v[7]), ID: string(v[8])}
	}
	return e
}

func (d *decoder) name(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	if len(d.names) >= maxNames {
		clear(d.names)
	}
	s := string(b)
	d.names[s] = s
	return s
}

// copy keeps b; nil stays nil.
func (d *decoder) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	if len(b) > slab/4 {
		return slices.Clone(b)
	}
	if len(b) > cap(d.bytes)-len(d.bytes) {
		d.bytes = make([]byte, 0, slab)
	}
	from := len(d.bytes)
	d.bytes = append(d.bytes, b...)
	return d.bytes[from:len(d.bytes):len(d.bytes)]
}

// epoch is PostgreSQL's, 2000-01-01 UTC, in seconds of Unix.
const epoch = 946_684_800

// timeOf reads a timestamptz. The infinities are the zero time: they say nothing of when something was.
func timeOf(b []byte) time.Time {
	v := int64Of(b)
	if len(b) != 8 || v == math.MaxInt64 || v == math.MinInt64 {
		return time.Time{}
	}
	return time.Unix(epoch+v/1e6, v%1e6*1e3)
}
