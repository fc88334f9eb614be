package relay

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

var _ Source = (*fakeSource)(nil)

// fakeSource implements Source over a fakeTable: a cursor, holes, and walks, as the contract of Reader describes them.
type fakeSource struct {
	table *fakeTable
	// before is asked before each call, by its name, and after when it has taken effect: an error stands for a broken connection, or a lost reply.
	before, after script

	// warnings are what Open tells of.
	warnings []string

	owner  Owner
	lanes  []int32
	cursor int64
	holes  []int64
	walk   *fakeWalk
	// left are the keys of which a request was left open in this round.
	left []Key
	// ahead is how far the database's clock is ahead.
	ahead time.Duration
	// read counts the events that Read has returned.
	read atomic.Int64
}

// script is a hook that a test may change while a relay works.
type script struct {
	f atomic.Pointer[func(ctx context.Context, op string) error]
}

func (s *script) set(f func(ctx context.Context, op string) error) { s.f.Store(&f) }

func (s *script) call(ctx context.Context, op string) error {
	if f := s.f.Load(); f != nil && *f != nil {
		return (*f)(ctx, op)
	}
	return nil
}

// fakeWalk goes once more through what is unpublished: all of it, or what belongs to some keys and topics.
type fakeWalk struct {
	pos    int64
	all    bool
	keys   []Key
	topics []string
	lanes  []int32
}

// owns tells whether the walk will come to the event, which is in a lane.
func (w *fakeWalk) owns(e *Event, lane int32) bool {
	return w != nil && e.ID > w.pos &&
		(w.all || slices.Contains(w.keys, e.Key()) || slices.Contains(w.topics, e.Topic) || slices.Contains(w.lanes, lane))
}

func (s *fakeSource) walks(e *Event) bool { return s.walk.owns(e, s.table.lane(e.Key())) }

func (s *fakeSource) mine(e *Event) bool { return slices.Contains(s.lanes, s.table.lane(e.Key())) }

func (s *fakeSource) call(ctx context.Context, op string, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.before.call(ctx, op); err != nil {
		return err
	}
	s.table.mu.Lock()
	err := f()
	s.table.mu.Unlock()
	if err != nil {
		return err
	}
	return s.after.call(ctx, op)
}

func (s *fakeSource) Open(ctx context.Context) (info SourceInfo, err error) {
	err = s.call(ctx, "open", func() error {
		info = SourceInfo{Name: "public.outbox_event", ID: uuid.UUID{1}, Lanes: len(s.table.lanes), FirstPublished: s.table.firstPublished, Warnings: s.warnings}
		return nil
	})
	return info, err
}

func (s *fakeSource) Close() {}

func (s *fakeSource) Watch(ctx context.Context) error {
	return s.call(ctx, "watch", func() error { return nil })
}

func (s *fakeSource) Start(ctx context.Context, held Held, lanes []int32) error {
	return s.call(ctx, "start", func() error {
		s.lanes = slices.Clone(lanes)
		s.start()
		return nil
	})
}

// start leaves everything up to the last id to a walk; ids without a visible row are holes.
func (s *fakeSource) start() {
	s.cursor, s.holes = int64(len(s.table.rows)), nil
	for _, row := range s.table.rows {
		if !row.visible {
			s.holes = append(s.holes, row.event.ID)
		}
	}
	s.walk = &fakeWalk{all: true}
}

func (s *fakeSource) Read(ctx context.Context, limit int) (b Batch, err error) {
	err = s.call(ctx, "read", func() error {
		b = s.snapshot(limit)
		return nil
	})
	if err != nil {
		return Batch{}, err
	}
	s.read.Add(int64(len(b.Events)))
	return b, nil
}

// snapshot hands on what it finds in the order of the ids: an event that has appeared in a hole goes before what the walk and the head have of its key.
func (s *fakeSource) snapshot(limit int) (b Batch) {
	finds := s.finds()
	b.Events, b.More = s.walkOn(limit)
	b.Walking = s.walk != nil
	if s.walk == nil || !s.walk.all {
		head, more := s.head(limit - len(b.Events))
		b.Events, b.More = append(b.Events, head...), b.More || more
	}
	b.Events = append(b.Events, finds...)
	slices.SortFunc(b.Events, func(x, y *Event) int { return cmp.Compare(x.ID, y.ID) })
	b.OpenWriters, b.Holes, b.Now = len(s.holes), len(s.holes), time.Now().Add(s.ahead)
	return b
}

// walkOn returns the next events of the walk, which ends when it reaches the cursor.
func (s *fakeSource) walkOn(limit int) (events []*Event, more bool) {
	w := s.walk
	if w == nil {
		return nil, false
	}
	for _, e := range s.table.unpublished(w.pos, s.cursor) {
		if len(events) == limit {
			w.pos = events[limit-1].ID
			return events, true
		}
		if s.mine(e) && s.walks(e) {
			events = append(events, e)
		}
	}
	s.walk = nil
	return events, false
}

// finds returns what has become visible in holes; what a walk will come to is left to it.
func (s *fakeSource) finds() (events []*Event) {
	s.holes = slices.DeleteFunc(s.holes, func(id int64) bool {
		row := s.table.rows[id-1]
		if row.visible && !row.published && s.mine(row.event) && !s.walks(row.event) {
			events = append(events, row.event)
		}
		return row.visible
	})
	return events
}

// head passes the cursor over the next rows.
func (s *fakeSource) head(limit int) (events []*Event, more bool) {
	for _, row := range s.table.rows[s.cursor:] {
		if len(events) >= limit {
			return events, true
		}
		s.cursor = row.event.ID
		switch {
		case row.forgotten:
		case !row.visible:
			s.holes = append(s.holes, row.event.ID)
		case !row.published && s.mine(row.event) && !s.walks(row.event):
			events = append(events, row.event)
		}
	}
	return events, false
}

func (s *fakeSource) Forget(lanes []int32) {
	s.lanes = slices.DeleteFunc(s.lanes, func(l int32) bool { return slices.Contains(lanes, l) })
}

func (s *fakeSource) Reread(keys []Key, topics []string, lanes []int32) {
	s.Forget(lanes)
	s.lanes = append(s.lanes, lanes...)
	if s.walk == nil {
		s.walk = &fakeWalk{}
	}
	s.walk.pos = 0
	s.walk.keys = append(s.walk.keys, keys...)
	s.walk.topics = append(s.walk.topics, topics...)
	s.walk.lanes = append(s.walk.lanes, lanes...)
}

func (s *fakeSource) Sweep(ctx context.Context, budget time.Duration, known func(Ref) bool, held Held) (found int, err error) {
	if s.walk != nil {
		return 0, nil
	}
	err = s.call(ctx, "sweep", func() error {
		topics := held.HeldTopics()
		for _, e := range s.table.unpublished(0, s.cursor) {
			if s.mine(e) && !known(e.Ref()) && !held.HeldKey(e.Key()) && !slices.Contains(topics, e.Topic) && !slices.Contains(s.holes, e.ID) {
				found++
			}
		}
		if found > 0 {
			s.start()
		}
		return nil
	})
	return found, err
}

func (s *fakeSource) Settle(ctx context.Context, refs []Ref) (n int, err error) {
	var stuck []Ref
	err = s.call(ctx, "settle", func() error {
		s.table.statements = append(s.table.statements, len(refs))
		for _, ref := range refs {
			switch row := s.table.row(ref); {
			case row.published || row.event.EventID != ref.EventID:
			case row.unsettleable:
				stuck = append(stuck, ref)
			default:
				row.published = true
				row.late = s.table.lanes[s.table.lane(row.event.Key())].owner != s.owner
				n++
			}
		}
		return nil
	})
	if err == nil && len(stuck) > 0 {
		err = &UnsettledError{Refs: stuck, Err: errors.New("a trigger refuses it")}
	}
	return n, err
}
