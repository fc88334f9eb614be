package operate

import "hash/maphash"

// eventSet counts events by their ids, of which it keeps eight bytes each: there may be millions.
type eventSet struct {
	seed maphash.Seed
	seen map[uint64]struct{}
	n    int64
}

func newEventSet() *eventSet { return &eventSet{seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}} }

// add counts one without an id as an event of its own.
func (s *eventSet) add(id string) {
	if id != "" {
		h := maphash.String(s.seed, id)
		if _, again := s.seen[h]; again {
			return
		}
		s.seen[h] = struct{}{}
	}
	s.n++
}

// EventsOf is how many events the letters are of; each without an event id counts as one.
func EventsOf(letters []DeadLetter) int64 {
	s := newEventSet()
	for i := range letters {
		s.add(letters[i].EventID)
	}
	return s.n
}
