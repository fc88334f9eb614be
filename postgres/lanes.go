package postgres

import (
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// laneSet is a set of the lanes of a source that has total ones.
type laneSet struct {
	total int
	set   map[int32]struct{}
}

func newLaneSet(total int, lanes []int32) laneSet {
	s := laneSet{total, map[int32]struct{}{}}
	s.add(lanes)
	return s
}

func (s laneSet) add(lanes []int32) {
	for _, l := range lanes {
		s.set[l] = struct{}{}
	}
}

func (s laneSet) remove(lanes []int32) {
	for _, l := range lanes {
		delete(s.set, l)
	}
}

func (s laneSet) len() int { return len(s.set) }

// all tells that nothing is left out.
func (s laneSet) all() bool { return len(s.set) == s.total }

// has tells whether a partition key is in one of the lanes.
func (s laneSet) has(partitionKey string) bool {
	if len(s.set) == 0 {
		return false
	}
	_, ok := s.set[relay.Lane(partitionKey, s.total)]
	return ok
}

// within is the condition for the row e of the source to be in one of the lanes.
func (s laneSet) within(row pg.Source, st *statement) string {
	// An empty list must not become NULL, of which nothing is true, nor its contrary.
	lanes := slices.AppendSeq(make([]int32, 0, len(s.set)), maps.Keys(s.set))
	slices.Sort(lanes)
	return row.Lane("coalesce(e.partition_key::text, '')", strconv.Itoa(s.total)) + " = ANY (" + st.param(pgtype.Int4ArrayOID, lanes) + ")"
}
