package relay

import "slices"

// The gate's side of [ScopeAggregate]. A key that stops an aggregate is a root; one that is parked because it has come to an event of a stopped aggregate is its
// follower. A follower stops nobody: what waits behind it is of other aggregates, and those go on elsewhere.
//
// A key becomes a follower only while nothing of it is outstanding, so that what is in front of the event has its own outcome first.

// scope is what the gate knows of stopped aggregates; see [term.parks] for when one is stopped.
type scope struct {
	// parks tells of an event that has failed whether its aggregate stops with its key.
	parks func(outcome) bool
	// roots are all of the source; those of the gate's own lanes are true to what is parked at any moment, the others to the last look.
	roots map[Key]StoppedAggregate
	// stopped has the roots' keys by aggregate, hardly ever more than one.
	stopped map[Aggregate][]Key
	// met are events at which keys have become followers, which is to be written down.
	met []outcome
}

func newScope(parks func(outcome) bool) *scope {
	return &scope{parks: parks, roots: map[Key]StoppedAggregate{}, stopped: map[Aggregate][]Key{}}
}

func (s *scope) add(r StoppedAggregate) {
	s.remove(r.Key)
	s.roots[r.Key] = r
	s.stopped[r.Aggregate] = append(s.stopped[r.Aggregate], r.Key)
}

func (s *scope) remove(key Key) {
	r, is := s.roots[key]
	if !is {
		return
	}
	delete(s.roots, key)
	keys := slices.DeleteFunc(s.stopped[r.Aggregate], func(k Key) bool { return k == key })
	if len(keys) == 0 {
		delete(s.stopped, r.Aggregate)
		return
	}
	s.stopped[r.Aggregate] = keys
}

// stops tells that the aggregate is stopped. Nothing is parked by aggregate for a nil scope.
func (s *scope) stops(a Aggregate) bool {
	if s == nil || len(s.stopped) == 0 {
		return false
	}
	_, stopped := s.stopped[a]
	return stopped
}

func (s *scope) stopsAny(events []*Event) bool {
	return s != nil && len(s.stopped) > 0 && slices.ContainsFunc(events, func(e *Event) bool { return s.stops(e.Aggregate) })
}

// follow stops the event's key at it, or, while something in front of it is outstanding, has the key read again when that has its outcome.
func (g *gate) follow(k *keyState, e *Event) {
	if k != nil {
		g.spill(k)
		return
	}
	key := e.Key()
	g.parked[key] = struct{}{}
	g.deciding[key]++
	// The payload is not needed any more, and there may be many.
	slim := &Event{ID: e.ID, EventID: e.EventID, Type: e.Type, Topic: e.Topic, PartitionKey: e.PartitionKey, Aggregate: e.Aggregate}
	g.scope.met = append(g.scope.met, outcome{slim, errFollows})
}

// takeMet returns the events at which keys have become followers since the last call.
func (g *gate) takeMet() (met []outcome) {
	if g.scope == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	met, g.scope.met = g.scope.met, nil
	return met
}

// stopAggregate makes the key a root, before it is written down.
func (g *gate) stopAggregate(r StoppedAggregate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.scope != nil && r.Aggregate != (Aggregate{}) {
		g.scope.add(r)
	}
}

// rootOf returns a root of the aggregate.
func (g *gate) rootOf(a Aggregate) (r StoppedAggregate, stopped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.scope.stops(a) {
		return r, false
	}
	return g.scope.roots[g.scope.stopped[a][0]], true
}

// setRoots takes what the database says of all roots. Of its own lanes the gate knows better: a key may have stopped that is not written down yet, and another may have gone
// on since.
func (g *gate) setRoots(all []StoppedAggregate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.scope.roots
	g.scope.roots, g.scope.stopped = map[Key]StoppedAggregate{}, map[Aggregate][]Key{}
	for key, r := range before {
		if _, parked := g.parked[key]; parked && g.lanes.has(key) {
			g.scope.add(r)
		}
	}
	for _, r := range all {
		if !g.lanes.has(r.Key) {
			g.scope.add(r)
		}
	}
}

// followed takes that the key is written down as a follower of the aggregate.
func (g *gate) followed(key Key, a Aggregate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.followers == nil {
		g.followers, g.followersOf = map[Key]Aggregate{}, map[Aggregate]map[Key]struct{}{}
	}
	g.followers[key] = a
	if g.followersOf[a] == nil {
		g.followersOf[a] = map[Key]struct{}{}
	}
	g.followersOf[a][key] = struct{}{}
}

func (g *gate) followerOf(key Key) *Aggregate {
	if a, follows := g.followers[key]; follows {
		return &a
	}
	return nil
}

// unscope forgets what the key is to aggregates.
func (g *gate) unscope(key Key) {
	if g.scope != nil {
		g.scope.remove(key)
	}
	if a := g.followerOf(key); a != nil {
		delete(g.followers, key)
		delete(g.followersOf[*a], key)
		if len(g.followersOf[*a]) == 0 {
			delete(g.followersOf, *a)
		}
	}
}

// looseAny tells that followers may go on.
func (g *gate) looseAny() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	any := false
	g.eachLoose(func(Key) bool { any = true; return false })
	return any
}

// takeLoose returns at most so many followers whose aggregates nothing stops any more. Their lanes stay busy until freed is called with the same keys.
func (g *gate) takeLoose(most int) (keys []Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.eachLoose(func(key Key) bool {
		g.deciding[key]++
		keys = append(keys, key)
		return len(keys) < most
	})
	return keys
}

func (g *gate) eachLoose(f func(Key) bool) {
	for a, keys := range g.followersOf {
		if g.scope.stops(a) {
			continue
		}
		for key := range keys {
			if g.lanes.has(key) && !f(key) {
				return
			}
		}
	}
}

// freed lets those of the keys go on that are not parked any more; the others are no followers.
func (g *gate) freed(keys, gone []Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		g.settleDecided(key)
		g.unscope(key)
	}
	for _, key := range gone {
		delete(g.parked, key)
		g.goOn(key)
	}
}
