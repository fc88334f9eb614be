package postgres

import (
	"math"
	"slices"

	"github.com/outbox-relay/outbox/relay"
)

// beginning is the position before every id. OVERRIDING SYSTEM VALUE makes negative ones, even this one: see above.
const beginning = math.MinInt64

// walk reads all that is unpublished of some keys, topics and lanes, in pages from the oldest on, beside the reading of everything
// else. It reaches up to the reader's position. Until it has caught up there, every event of its filter that appears above its own
// position is left to it: a newer event must not overtake an older one that the walk has yet to come to.
//
// There is one walk at a time. What is asked for meanwhile is collected into the next one: to start another walk for each call would
// scan the unpublished rows once for each released key, and to widen the running one would mean to begin it again each time, so it
// might never end. Events of the next walk are left to it from the moment they are asked for.
type walk struct {
	keys   map[relay.Key]struct{}
	topics map[string]struct{}
	lanes  laneSet
	// pos is the id up to which the walk has seen all unpublished rows.
	pos int64
	// density is that of the rows that match.
	density density
	sieve   sieve
}

func newWalk(lanes int) *walk {
	return &walk{density: thin, keys: map[relay.Key]struct{}{}, topics: map[string]struct{}{}, lanes: newLaneSet(lanes, nil), pos: beginning}
}

func (w *walk) add(keys []relay.Key, topics []string, lanes []int32) {
	for _, k := range keys {
		w.keys[k] = struct{}{}
	}
	for _, t := range topics {
		w.topics[t] = struct{}{}
	}
	w.lanes.add(lanes)
	if w.lanes.len() > 0 {
		w.density = w.lanes.density()
	}
}

// forget takes lanes off, and tells whether there is anything left to walk for. Keys of the lanes stay; their rows do not come any more.
func (w *walk) forget(lanes []int32) (left bool) {
	w.lanes.remove(lanes)
	return len(w.keys) > 0 || len(w.topics) > 0 || w.lanes.len() > 0
}

// askedHeld is of how many keys a walk asks at each page whether they are held: to ask is a lock of the gate.
const askedHeld = 100

// leaveHeld ends a walk for nothing but a few keys all of which are held by now: the first event of a released key failed again, most likely. What would still come of them
// would be dropped, and when they go on they are read again from the beginning.
func (r *reader) leaveHeld() {
	w := r.walk
	if w == nil || r.held == nil || len(w.topics) > 0 || w.lanes.len() > 0 || len(w.keys) > askedHeld {
		return
	}
	for key := range w.keys {
		if r.held.HeldKey(key) {
			delete(w.keys, key)
		}
	}
	if len(w.keys) == 0 {
		r.walk, r.next = r.next, nil
	}
}

// matches tells whether the event is one of the walk's; of no walk it is false.
func (w *walk) matches(e *relay.Event) bool {
	if w == nil {
		return false
	}
	if _, ok := w.topics[e.Topic]; ok {
		return true
	}
	if _, ok := w.keys[e.Key()]; ok {
		return true
	}
	return w.lanes.has(e.PartitionKey)
}

// awaits tells whether the walk has yet to come to the event.
func (w *walk) awaits(e *relay.Event) bool { return w != nil && e.ID > w.pos && w.matches(e) }

// lists returns the filter in the form of parameters: topics, and keys as two lists of the same length.
func (w *walk) lists() (topics, keyTopics, keys []string) {
	topics = make([]string, 0, len(w.topics))
	for t := range w.topics {
		topics = append(topics, t)
	}
	keyTopics, keys = make([]string, 0, len(w.keys)), make([]string, 0, len(w.keys))
	for k := range w.keys {
		keyTopics, keys = append(keyTopics, k.Topic), append(keys, k.PartitionKey)
	}
	return topics, keyTopics, keys
}

// Reread implements [relay.Reader]. Rows of a gained lane are handed out from now on, but not before the walk has come to them: what lies
// below it was passed, as another relay's, and what is in the holes or above may be newer.
func (r *reader) Reread(keys []relay.Key, topics []string, lanes []int32) {
	if len(keys) == 0 && len(topics) == 0 && len(lanes) == 0 {
		return
	}
	// What could not be printed may have been mended.
	r.aside = nil
	r.heldTopics = slices.DeleteFunc(r.heldTopics, func(t string) bool { return slices.Contains(topics, t) })
	r.lanes.add(lanes)
	r.density = r.lanes.density()
	if r.walk == nil {
		r.walk = newWalk(r.row.Lanes)
	}
	if r.walk.pos == beginning {
		r.walk.add(keys, topics, lanes)
		return
	}
	if r.next == nil {
		r.next = newWalk(r.row.Lanes)
	}
	r.next.add(keys, topics, lanes)
}

// Forget implements [relay.Reader]. A walk for nothing else than the lanes ends.
func (r *reader) Forget(lanes []int32) {
	r.lanes.remove(lanes)
	r.density = r.lanes.density()
	if r.next != nil && !r.next.forget(lanes) {
		r.next = nil
	}
	if r.walk != nil && !r.walk.forget(lanes) {
		r.walk, r.next = r.next, nil
	}
}
