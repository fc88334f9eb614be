package relay

// Keys that wait for the next attempt with the event that stops them. They are held like parked ones, and go on by themselves.

// delay lets a key wait, which may have stopped before.
func (g *gate) delay(key Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.parked, key)
	g.unscope(key)
	if g.delayed == nil {
		g.delayed = map[Key]struct{}{}
	}
	g.delayed[key] = struct{}{}
}

// hasten lets a key go on that waits; one that does not is left as it is.
func (g *gate) hasten(key Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, waits := g.delayed[key]; !waits {
		return
	}
	delete(g.delayed, key)
	g.goOn(key)
}

func (g *gate) delayedKeys() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.delayed)
}

// decided takes that the database knows what becomes of keys that had stopped, for every relay to see. Those that go on are unparked before.
func (g *gate) decided(keys ...Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		g.settleDecided(key)
	}
}

func (g *gate) settleDecided(key Key) {
	if g.deciding[key]--; g.deciding[key] <= 0 {
		delete(g.deciding, key)
	}
}

// refs are the events that are in flight and will not stay so; flies tells whether one still is.
func (g *gate) refs() (refs []Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for ref, f := range g.inFlight {
		if !f.settled && !f.stuck {
			refs = append(refs, ref)
		}
	}
	return refs
}

func (g *gate) flies(ref Ref) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	f, ok := g.inFlight[ref]
	return ok && !f.settled && !f.stuck
}
