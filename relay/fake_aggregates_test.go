package relay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

var _ Aggregates = (*fakeSource)(nil)

// ReadAggregates does nothing: the events of a fakeTable have their aggregates.
func (s *fakeSource) ReadAggregates() {}

func (s *fakeSource) StoppedAggregates(ctx context.Context, known string) (a StoppedAggregates, err error) {
	err = s.call(ctx, "stopped", func() error {
		for _, p := range s.table.parked {
			if p.Code != CodeAggregateParked && p.Aggregate != (Aggregate{}) {
				a.All = append(a.All, StoppedAggregate{p.Aggregate, p.Key, p.Event})
			}
		}
		slices.SortFunc(a.All, func(x, y StoppedAggregate) int { return cmp.Compare(x.Event.ID, y.Event.ID) })
		if a.Name = fmt.Sprint(len(a.All), a.All); a.Name == known {
			a.All = nil
		}
		return nil
	})
	return a, err
}

func (s *fakeSource) FreeFollowers(ctx context.Context, c Claim, keys []Key) (freed []Key, err error) {
	err = s.call(ctx, "free", func() error {
		for _, key := range keys {
			if err := s.ownsLane(c, s.table.lane(key)); err != nil {
				return err
			}
		}
		for _, key := range keys {
			if p, parked := s.table.parked[key]; parked && p.Code != CodeAggregateParked {
				continue
			}
			delete(s.table.parked, key)
			freed = append(freed, key)
		}
		return nil
	})
	return freed, err
}

// insertOf writes an event of an aggregate.
func (f *fakeTable) insertOf(id string, key Key) *Event {
	row := f.reserve(key)
	row.event.Aggregate = Aggregate{Type: "Order", ID: id}
	f.commit(row)
	return row.event
}

// parkedAs returns the code with which a key is parked; "" when it is not.
func (f *fakeTable) parkedAs(key Key) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.parked[key].Code
}
