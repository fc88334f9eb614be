package postgres

import (
	"math"

	"github.com/outbox-relay/outbox/relay"
)

// beginning is before every id: OVERRIDING SYSTEM VALUE makes negative ones.
const beginning = math.MinInt64

// walk reads all that is unpublished of some keys and topics once more, in pages from the oldest on, beside the reading of everything
// else. It reaches up to the reader's position. Until it has caught up there, every event of its filter that appears above its own
// position is left to it: a newer event must not overtake an older one that the walk has yet to come to.
//
// There is one walk at a time. What is asked for meanwhile is collected into the next one: to start another walk for each call would
// scan the unpublished rows once for each released key, and to widen the running one would mean to begin it again each time, so it
// might never end. Events of the next walk are left to it from the moment they are asked for.
type walk struct {
	keys   map[relay.Key]struct{}
	topics map[string]struct{}
	// pos is the id up to which the walk has seen all unpublished rows.
	pos int64
}

func newWalk() *walk {
	return &walk{keys: map[relay.Key]struct{}{}, topics: map[string]struct{}{}, pos: beginning}
}

func (w *walk) add(keys []relay.Key, topics []string) {
	for _, k := range keys {
		w.keys[k] = struct{}{}
	}
	for _, t := range topics {
		w.topics[t] = struct{}{}
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
	_, ok := w.keys[e.Key()]
	return ok
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
