package relay

import "sync"

// gate holds everything that is in flight and decides what may go out now. A key with records outstanding gets no new ones: the
// client fails everything buffered for a partition when one record fails, and a newer record of the key could slip in between the failure
// and our reaction. Different keys do not wait for each other, so batches stay large.
//
// Only the reader's goroutine admits; outcomes and settles come from other goroutines.
type gate struct {
	limitEvents, limitBytes int

	mu sync.Mutex
	// inFlight holds what was admitted and whose settle has not committed, or has committed while a read was on its way that may still show the
	// row as unpublished.
	inFlight map[Ref]struct{}
	keys     map[Key]*keyState
	topics   map[string]*topicState
	parked   map[Key]struct{}
	// events and bytes are what the budget is charged for: admitted and not settled.
	events, bytes int
	outstanding   int
	admission     uint64
	// readsBegun and readsEnded count the reader's statements; settled refs wait in graves for those that began before the settle's commit.
	readsBegun, readsEnded uint64
	graves                 []grave
	releasedKeys           []Key
	releasedTopics         []string
	closed                 bool

	// room is signalled when budget was given back, released when a key or a topic may go on, quiet when nothing is in flight.
	room, released, quiet signal
}

type keyState struct {
	topic       *topicState
	outstanding int
	// admission is the call of admit that found the key idle: its events go out together.
	admission uint64
	waiting   []*Event
	// spilled tells that events of the key were dropped from memory: it gets no new ones until it is read again from its oldest on.
	spilled bool
}

type topicState struct {
	outstanding int
	// err is why the topic is held; nil when it is not.
	err error
	// ready tells that a held topic was found in order again: it is released when nothing of it is outstanding.
	ready bool
}

type grave struct {
	ref Ref
	// read is the last read that may still show the row as unpublished.
	read uint64
}

func newGate(limitEvents, limitBytes int) *gate {
	return &gate{
		limitEvents: limitEvents,
		limitBytes:  limitBytes,
		inFlight:    map[Ref]struct{}{},
		keys:        map[Key]*keyState{},
		topics:      map[string]*topicState{},
		parked:      map[Key]struct{}{},
		room:        newSignal(),
		released:    newSignal(),
		quiet:       newSignal(),
	}
}

// admit takes what was read, in order, and returns what may be published now. What the gate already has, and what is held, is dropped: it will be
// read again when its key or topic is released.
func (g *gate) admit(events []*Event) (ready []*Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.admission++
	ready = make([]*Event, 0, len(events))
	for _, e := range events {
		ref, key := e.Ref(), e.Key()
		if _, dup := g.inFlight[ref]; dup {
			continue
		}
		if _, parked := g.parked[key]; parked {
			continue
		}
		k := g.keys[key]
		if k == nil {
			t := g.topic(key.Topic)
			if t.err != nil {
				continue
			}
			k = &keyState{topic: t, admission: g.admission}
			g.keys[key] = k
		}
		if k.spilled || k.topic.err != nil {
			continue
		}
		g.inFlight[ref] = struct{}{}
		g.events++
		g.bytes += e.Size()
		if k.admission != g.admission {
			k.waiting = append(k.waiting, e)
			continue
		}
		g.send(k, 1)
		ready = append(ready, e)
	}
	return ready
}

func (g *gate) topic(name string) *topicState {
	t := g.topics[name]
	if t == nil {
		t = &topicState{}
		g.topics[name] = t
	}
	return t
}

func (g *gate) send(k *keyState, n int) {
	k.outstanding += n
	k.topic.outstanding += n
	g.outstanding += n
}

// outcome is what became of one event that was handed to the publisher.
type outcome struct {
	event *Event
	err   error
}

// verdict is what follows from a batch of outcomes.
type verdict struct {
	// ready are the waiting events whose keys are free now.
	ready []*Event
	// acked are in Kafka: they are to be settled.
	acked []*Event
	// failed are to be parked.
	failed []outcome
	// heldTopics are the topics that stopped with this batch.
	heldTopics map[string]error
	// unknown is the first outcome that nobody knows: the client is gone and the term with it.
	unknown error
}

// resolve takes outcomes in the order in which they came.
func (g *gate) resolve(outcomes []outcome) verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	var v verdict
	v.acked = make([]*Event, 0, len(outcomes))
	for _, o := range outcomes {
		key := o.event.Key()
		k := g.keys[key]
		g.send(k, -1)
		switch {
		case o.err == nil:
			v.acked = append(v.acked, o.event)
		case ClassOf(o.err) == ClassUnknown:
			g.drop(o.event)
			k.spilled = true
			if v.unknown == nil {
				v.unknown = o.err
			}
		default:
			g.fail(&v, k, o)
		}
		g.settleKey(&v, key, k)
	}
	if g.outstanding == 0 {
		g.quiet.set()
	}
	return v
}

// fail drops the event from memory: whatever its class, it is read again when what stops it is over.
func (g *gate) fail(v *verdict, k *keyState, o outcome) {
	g.drop(o.event)
	key := o.event.Key()
	switch ClassOf(o.err) {
	case ClassEvent:
		if _, dup := g.parked[key]; !dup {
			g.parked[key] = struct{}{}
			v.failed = append(v.failed, o)
		}
	case ClassTopic:
		if k.topic.err == nil {
			k.topic.err, k.topic.ready = o.err, false
			if v.heldTopics == nil {
				v.heldTopics = map[string]error{}
			}
			v.heldTopics[key.Topic] = o.err
		}
	}
	g.spill(k)
}

// settleKey lets the key go on, or away, when nothing of it is outstanding any more.
func (g *gate) settleKey(v *verdict, key Key, k *keyState) {
	if t := k.topic; t.outstanding == 0 && t.err != nil && t.ready {
		g.releaseTopic(key.Topic, t)
	}
	if k.outstanding > 0 {
		return
	}
	switch {
	case k.spilled:
		g.releaseKey(key)
	case len(k.waiting) == 0:
		delete(g.keys, key)
	case !g.closed:
		v.ready = append(v.ready, k.waiting...)
		g.send(k, len(k.waiting))
		k.waiting = nil
	}
}

// spill forgets the waiting events of the key; it will be read again.
func (g *gate) spill(k *keyState) {
	for _, e := range k.waiting {
		g.drop(e)
	}
	k.waiting = nil
	k.spilled = true
}

// spillWaiting makes room while some keys are stuck and others are not: it forgets all waiting events of keys with records outstanding.
func (g *gate) spillWaiting() (spilled int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.events
	for _, k := range g.keys {
		if len(k.waiting) > 0 {
			g.spill(k)
		}
	}
	return before - g.events
}

func (g *gate) drop(e *Event) {
	delete(g.inFlight, e.Ref())
	g.giveBack(1, e.Size())
}

func (g *gate) giveBack(events, bytes int) {
	g.events -= events
	g.bytes -= bytes
	g.room.set()
}

// settled takes events whose settle has committed.
func (g *gate) settled(events []*Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	bytes := 0
	for _, e := range events {
		bytes += e.Size()
		if g.readsBegun == g.readsEnded {
			delete(g.inFlight, e.Ref())
			continue
		}
		g.graves = append(g.graves, grave{e.Ref(), g.readsBegun})
	}
	g.giveBack(len(events), bytes)
}

// beginRead and endRead enclose every statement of the reader together with the admission of what it found.
func (g *gate) beginRead() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.readsBegun++
}

func (g *gate) endRead() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.readsEnded++
	n := 0
	for _, v := range g.graves {
		if v.read > g.readsEnded {
			break
		}
		delete(g.inFlight, v.ref)
		n++
	}
	g.graves = append(g.graves[:0], g.graves[n:]...)
}

// free returns how many events and bytes the budget has left; never less than zero.
func (g *gate) free() (events, bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, g.limitEvents-g.events), max(0, g.limitBytes-g.bytes)
}

// load returns how many events are in flight, and how many of them are with the publisher.
func (g *gate) load() (inFlight, outstanding int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.events, g.outstanding
}

// close lets nothing new out: what waits is forgotten, what is outstanding may finish.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, k := range g.keys {
		g.spill(k)
	}
	if g.outstanding == 0 {
		g.quiet.set()
	}
}
