package relay

import (
	"slices"
	"time"
)

// The gate's lanes. A lane that is gained is held until the reader's goroutine takes it and walks through what is unpublished of it: a newer event
// must not be admitted before. A lane that is left gets no new events at once; what of it is outstanding finishes, and when that is settled and its
// failed keys are parked, nothing of it is busy and it may be handed to another relay.

// laneSet is a set of a source's lanes.
type laneSet struct {
	held []bool
	n    int
}

func newLaneSet(all int, lanes []int32) laneSet {
	s := laneSet{held: make([]bool, all)}
	s.add(lanes)
	return s
}

func (s *laneSet) add(lanes []int32) {
	for _, l := range lanes {
		if !s.held[l] {
			s.held[l] = true
			s.n++
		}
	}
}

func (s *laneSet) remove(lanes []int32) {
	for _, l := range lanes {
		if s.held[l] {
			s.held[l] = false
			s.n--
		}
	}
}

// has tells whether the key is of one of the lanes. The lane of a key costs a hash, so it is computed only when some lanes are not in the set.
func (s *laneSet) has(key Key) bool { return s.n == len(s.held) || s.held[s.of(key)] }

func (s *laneSet) of(key Key) int32 { return Lane(key.PartitionKey, len(s.held)) }

// gain gives the gate lanes, whose parked keys are known to it already.
func (g *gate) gain(lanes []int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gained = append(g.gained, lanes...)
	g.released.set()
}

// leave lets nothing new of the lanes out. What waits is forgotten; the next to have the lane reads it again.
func (g *gate) leave(lanes []int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lanes.remove(lanes)
	g.gained = slices.DeleteFunc(g.gained, func(l int32) bool { return slices.Contains(lanes, l) })
	g.left = append(g.left, lanes...)
	for key, k := range g.keys {
		if slices.Contains(lanes, g.lanes.of(key)) {
			g.spill(k)
		}
	}
}

// busy returns those of the lanes that still have something outstanding, unsettled or to be parked, or of which an operator's request is being carried
// out.
func (g *gate) busy(lanes []int32) []int32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	work := make([]bool, len(g.lanes.held))
	for _, f := range g.inFlight {
		if !f.settled && !f.stuck {
			work[g.lanes.of(f.key)] = true
		}
	}
	for key, k := range g.keys {
		if k.outstanding > 0 {
			work[g.lanes.of(key)] = true
		}
	}
	for key := range g.requested {
		work[g.lanes.of(key)] = true
	}
	for key := range g.deciding {
		work[g.lanes.of(key)] = true
	}
	var busy []int32
	for _, l := range lanes {
		if work[l] {
			busy = append(busy, l)
		}
	}
	return busy
}

// slow returns those of the lanes of which a key has had no answer since.
func (g *gate) slow(lanes []int32, since time.Time) []int32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	var slow []int32
	for key, k := range g.keys {
		if k.outstanding > 0 && k.answered.Before(since) {
			if l := g.lanes.of(key); slices.Contains(lanes, l) && !slices.Contains(slow, l) {
				slow = append(slow, l)
			}
		}
	}
	return slow
}

// forget drops what is known of lanes that are another relay's from now on, or that were until now.
func (g *gate) forget(lanes []int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lanes.remove(lanes)
	g.gained = slices.DeleteFunc(g.gained, func(l int32) bool { return slices.Contains(lanes, l) })
	for key := range g.parked {
		if slices.Contains(lanes, g.lanes.of(key)) {
			delete(g.parked, key)
		}
	}
	for key := range g.followers {
		if slices.Contains(lanes, g.lanes.of(key)) {
			g.unscope(key)
		}
	}
	for key := range g.delayed {
		if slices.Contains(lanes, g.lanes.of(key)) {
			delete(g.delayed, key)
		}
	}
	for key, k := range g.keys {
		if k.outstanding == 0 && slices.Contains(lanes, g.lanes.of(key)) {
			delete(g.keys, key)
		}
	}
}
