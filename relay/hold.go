package relay

import (
	"slices"
	"time"
)

// What is held: keys that are parked or spilled, topics that cannot be published to, and what is paused. Held events are not kept in memory. When
// the reason is over, the key or topic is released: the reader's goroutine takes it and reads it again from its oldest event on.

var _ Held = (*gate)(nil)

// HeldKey tells whether events of the key would be dropped.
func (g *gate) HeldKey(key Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused.source || g.stopped(key) || !g.lanes.has(key) {
		return true
	}
	if t := g.topics[key.Topic]; t != nil && t.due {
		return true
	}
	k := g.keys[key]
	return k != nil && k.spilled
}

// HeldTopics returns the topics that cannot be published to, or are paused, sorted.
func (g *gate) HeldTopics() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var names []string
	for name, t := range g.topics {
		if t.due {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// topicErrors returns why each held topic is held.
func (g *gate) topicErrors() map[string]error {
	g.mu.Lock()
	defer g.mu.Unlock()
	errs := map[string]error{}
	for name, t := range g.topics {
		if t.err != nil {
			errs[name] = t.err
		}
	}
	return errs
}

// missing returns since when each topic is held that was not found in order meanwhile.
func (g *gate) missing() map[string]time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	since := map[string]time.Time{}
	for name, t := range g.topics {
		if t.err != nil && !t.ready {
			since[name] = t.since
		}
	}
	return since
}

// known tells that the gate has the event, or had it when a read began that has not ended.
func (g *gate) known(ref Ref) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.inFlight[ref]
	return ok
}

func (g *gate) parkedKeys() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.parked)
}

// park holds a key that was found parked.
func (g *gate) park(key Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parked[key] = struct{}{}
}

// unpark lets keys go on that are no longer parked, nor wait for the next attempt.
func (g *gate) unpark(keys ...Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		delete(g.parked, key)
		delete(g.delayed, key)
		g.unscope(key)
		g.goOn(key)
	}
}

// hold stops those of the keys whose lanes are read, while operators' requests are carried out: nothing new of them goes out. The rows that a request changes must not
// be published at the same moment, so it may begin when the key is idle. The caller lets them go on with unhold.
func (g *gate) hold(keys []Key) (held []Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		if g.lanes.has(key) {
			g.requested[key] = struct{}{}
			g.spillKey(key)
			held = append(held, key)
		}
	}
	return held
}

// idle returns those of the keys of which nothing is in flight, those that are busy, and those that have stopped and of which is not decided: an event that is given up, or a
// letter on its way, would be moved after what is done now.
func (g *gate) idle(keys []Key) (idle, busy, deciding []Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	flying := make(map[Key]struct{}, len(g.inFlight))
	for _, f := range g.inFlight {
		if !f.stuck {
			flying[f.key] = struct{}{}
		}
	}
	for _, key := range keys {
		if _, flies := flying[key]; flies {
			busy = append(busy, key)
		} else if g.deciding[key] > 0 {
			deciding = append(deciding, key)
		} else {
			idle = append(idle, key)
		}
	}
	return idle, busy, deciding
}

// holding tells that keys are held for operators' requests.
func (g *gate) holding() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.requested) > 0
}

func (g *gate) unhold(keys []Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		delete(g.requested, key)
		g.goOn(key)
	}
}

// readAgain has keys read again from their oldest event on, unless something holds them.
func (g *gate) readAgain(keys []Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		g.goOn(key)
	}
}

// goOn hands a key to the reader's goroutine. It stays held until that takes it: a newer event must not be admitted before the key is read
// again.
func (g *gate) goOn(key Key) {
	if g.stopped(key) || !g.lanes.has(key) {
		return
	}
	k := g.keys[key]
	if k == nil {
		k = &keyState{topic: g.topic(key.Topic)}
		g.keys[key] = k
	}
	g.spill(k)
	if k.outstanding == 0 {
		g.releaseKey(key, k)
	}
}

// topicReady takes a topic that was found in order again. It returns false when that is known already.
func (g *gate) topicReady(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.topics[name]
	if t == nil || t.err == nil || t.ready || t.released {
		return false
	}
	if t.paused {
		t.err = nil
		return true
	}
	t.ready = true
	g.freeTopic(name, t)
	return true
}

// freeTopic releases a topic that nothing holds back any more, and of which nothing is outstanding.
func (g *gate) freeTopic(name string, t *topicState) {
	if t.due && !t.released && !t.paused && (t.err == nil || t.ready) && t.outstanding == 0 {
		g.releaseTopic(name, t)
	}
}

func (g *gate) releaseKey(key Key, k *keyState) {
	if k.released {
		return
	}
	k.released = true
	g.releasedKeys = append(g.releasedKeys, key)
	g.released.set()
}

func (g *gate) releaseTopic(name string, t *topicState) {
	t.released = true
	g.releasedTopics = append(g.releasedTopics, name)
	g.released.set()
}

// rest tells, in one moment, whether something is to be read again, how many events are in flight that will not stay so, and how many have stopped their keys and are
// undecided. An event that fails goes from in flight to undecided, and its key from there to what is to be read again, so with Config.Once nothing seems to be done in between.
func (g *gate) rest() (released bool, inFlight, undecided int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, times := range g.deciding {
		undecided += times
	}
	return len(g.releasedKeys)+len(g.releasedTopics)+len(g.gained) > 0 || g.paused.resuming, g.events - g.stuck, undecided
}

// released is what the reader has to do before its next read: forget lanes, then read keys, topics and lanes again.
type released struct {
	forget []int32
	keys   []Key
	topics []string
	lanes  []int32
}

// takeReleased ends the holds that are over and returns what follows for the reader. Only the reader's goroutine calls it: between this call
// and its Reread nothing is admitted, so no newer event can go first. A key of a held topic is read again with its topic, one of a lane that was
// left by whoever has the lane.
func (g *gate) takeReleased() (r released) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.forget, r.lanes = g.left, g.gained
	g.left, g.gained = nil, nil
	r.lanes = append(r.lanes, g.takeResumed()...)
	g.lanes.add(r.lanes)
	for _, key := range g.releasedKeys {
		delete(g.keys, key)
		if t := g.topics[key.Topic]; !g.stopped(key) && g.lanes.has(key) && (t == nil || !t.due) {
			r.keys = append(r.keys, key)
		}
	}
	for _, name := range g.releasedTopics {
		t := g.topics[name]
		t.err, t.ready, t.released = nil, false, false
		// It may have been paused since.
		if t.due = t.paused; !t.due {
			r.topics = append(r.topics, name)
		}
	}
	g.releasedKeys, g.releasedTopics = nil, nil
	return r
}
