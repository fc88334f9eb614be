package relay

import "slices"

// What is held: keys that are parked or spilled, and topics that cannot be published to. Held events are not kept in memory. When
// the reason is over, the key or topic is released: the reader's goroutine takes it and reads it again from its oldest event on.

var _ Held = (*gate)(nil)

// HeldKey tells whether events of the key would be dropped.
func (g *gate) HeldKey(key Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, parked := g.parked[key]; parked {
		return true
	}
	if t := g.topics[key.Topic]; t != nil && t.err != nil {
		return true
	}
	k := g.keys[key]
	return k != nil && k.spilled
}

// HeldTopics returns the topics that cannot be published to, sorted.
func (g *gate) HeldTopics() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var names []string
	for name, t := range g.topics {
		if t.err != nil {
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

// unpark lets a key go on that is no longer parked. It stays held until the reader's goroutine takes it: a newer event must not be admitted
// before the key is read again.
func (g *gate) unpark(key Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.parked, key)
	k := g.keys[key]
	if k == nil {
		k = &keyState{topic: g.topic(key.Topic)}
		g.keys[key] = k
	}
	g.spill(k)
	if k.outstanding == 0 {
		g.releaseKey(key)
	}
}

// idle tells that nothing of the key is with the publisher.
func (g *gate) idle(key Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.keys[key]
	return k == nil || k.outstanding == 0
}

// topicsReady takes topics that were found in order again.
func (g *gate) topicsReady(names []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range names {
		t := g.topics[name]
		if t == nil || t.err == nil {
			continue
		}
		t.ready = true
		if t.outstanding == 0 {
			g.releaseTopic(name, t)
		}
	}
}

func (g *gate) releaseKey(key Key) {
	g.releasedKeys = append(g.releasedKeys, key)
	g.released.set()
}

func (g *gate) releaseTopic(name string, t *topicState) {
	t.ready = false
	g.releasedTopics = append(g.releasedTopics, name)
	g.released.set()
}

func (g *gate) hasReleased() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.releasedKeys)+len(g.releasedTopics) > 0
}

// takeReleased ends the holds that are over and returns what is to be read again. Only the reader's goroutine calls it: between this call
// and its Reread nothing is admitted, so no newer event can go first. A key of a held topic is read again with its topic.
func (g *gate) takeReleased() (keys []Key, topics []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range g.releasedKeys {
		delete(g.keys, key)
		_, parked := g.parked[key]
		if t := g.topics[key.Topic]; !parked && (t == nil || t.err == nil) {
			keys = append(keys, key)
		}
	}
	for _, name := range g.releasedTopics {
		g.topics[name].err = nil
		topics = append(topics, name)
	}
	g.releasedKeys, g.releasedTopics = nil, nil
	return keys, topics
}
