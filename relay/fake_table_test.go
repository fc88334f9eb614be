package relay

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// fakeTable is an outbox table with the relay's state beside it, in memory. Several fakeSources share one, as several relays share a database.
type fakeTable struct {
	mu sync.Mutex
	// rows are in the order of their ids, which begin with 1.
	rows   []*fakeRow
	lanes  []fakeLane
	relays map[uuid.UUID]*fakeRelay
	parked map[Key]ParkedKey
	held   []HeldTopic
	fakeAttempts
	requests       []fakeRequest
	pauses         []Pause
	firstPublished time.Time
	// statements are the sizes of the statements that settled.
	statements []int
}

type fakeRow struct {
	event *Event
	// visible tells that the writer has committed, published that the row is settled or gone.
	visible, published bool
	// late tells that it was settled by a relay whose lane was another's by then: one that had lost its connection between the acknowledgement and
	// the settle. The other may have read the row before and publish it again.
	late bool
	// dead tells that it was given up: published is set too, and it may come back; everDead that it was once.
	dead, everDead bool
	// forgotten rows are passed over by the cursor without a trace.
	forgotten bool
	// unsettleable rows refuse to be marked.
	unsettleable bool
}

// fakeRequest is what an operator asks for: retry or discard the event that a parked key stops at, skip or restore one event.
type fakeRequest struct {
	verb string
	key  Key
	ref  Ref
}

// newFakeTable has one lane: one relay works, the others wait.
func newFakeTable() *fakeTable {
	return &fakeTable{lanes: make([]fakeLane, 1), relays: map[uuid.UUID]*fakeRelay{}, parked: map[Key]ParkedKey{}, firstPublished: time.Unix(1, 0)}
}

func (f *fakeTable) lane(key Key) int32 { return Lane(key.PartitionKey, len(f.lanes)) }

// reserve draws an id; the row is there when commit is called.
func (f *fakeTable) reserve(key Key) *fakeRow {
	f.mu.Lock()
	defer f.mu.Unlock()
	row := &fakeRow{event: testEvent(int64(len(f.rows)+1), key)}
	f.rows = append(f.rows, row)
	return row
}

func (f *fakeTable) commit(row *fakeRow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	row.visible = true
}

func (f *fakeTable) insert(key Key) *Event {
	row := f.reserve(key)
	f.commit(row)
	return row.event
}

func (f *fakeTable) insertMany(n int, key func(int) Key) (events []*Event) {
	for i := range n {
		events = append(events, f.insert(key(i)))
	}
	return events
}

// unpublished returns the visible rows after an id that are not settled, in order.
func (f *fakeTable) unpublished(after, last int64) (events []*Event) {
	for _, row := range f.rows[min(after, int64(len(f.rows))):min(last, int64(len(f.rows)))] {
		if row.visible && !row.published {
			events = append(events, row.event)
		}
	}
	return events
}

func (f *fakeTable) row(ref Ref) *fakeRow { return f.rows[ref.ID-1] }

func (f *fakeTable) settled(ref Ref) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.row(ref).published
}

func (f *fakeTable) settledInTime(ref Ref) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.row(ref).published && !f.row(ref).late
}

func (f *fakeTable) everDead(ref Ref) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.row(ref).everDead
}

// givenUp returns the events that operators have given up.
func (f *fakeTable) givenUp() (events []*Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, row := range f.rows {
		if row.dead {
			events = append(events, row.event)
		}
	}
	return events
}

// someUnpublished returns one of the unpublished events, drawn at random; nil when there is none.
func (f *fakeTable) someUnpublished(draw func(n int) int) *Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	events := f.unpublished(0, int64(len(f.rows)))
	if len(events) == 0 {
		return nil
	}
	return events[draw(len(events))]
}

// open returns how many committed events are not settled.
func (f *fakeTable) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.unpublished(0, int64(len(f.rows))))
}

func (f *fakeTable) parkedKeys() []Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.parked))
}

func (f *fakeTable) request(verb string, key Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, fakeRequest{verb: verb, key: key})
}

func (f *fakeTable) requestEvent(verb string, e *Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, fakeRequest{verb, e.Key(), e.Ref()})
}

// withdraw takes all requests back.
func (f *fakeTable) withdraw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = nil
}

func (f *fakeTable) requestsOpen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

// leased tells whose the first lane is, if its lease has not run out.
func (f *fakeTable) leased() (Owner, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lanes[0].owner, f.lanes[0].taken()
}

// has returns how many lanes of an owner have not run out.
func (f *fakeTable) has(owner Owner) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.lanes {
		if l.owner == owner && l.taken() {
			n++
		}
	}
	return n
}

// steal gives the lanes to another relay, as an operator or a wrong clock may.
func (f *fakeTable) steal(until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	thief := Owner{ID: uuid.New(), Name: "thief"}
	for i := range f.lanes {
		f.lanes[i] = fakeLane{owner: thief, epoch: f.lanes[i].epoch + 1, expires: until}
	}
}

func testEvent(id int64, key Key) *Event {
	return &Event{ID: id, EventID: uuid.New(), Type: "order.confirmed.v1", Topic: key.Topic, PartitionKey: key.PartitionKey, Payload: []byte(`{}`)}
}

func ids(events []*Event) (ids []int64) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}
