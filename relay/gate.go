package relay

import (
	"sync"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// gate holds everything that is in flight and decides what may go out now. A key with records outstanding gets no new ones: the
// client fails everything buffered for a partition when one record fails, and a newer record of the key could slip in between the failure
// and our reaction. Different keys do not wait for each other, so batches stay large.
//
// Only the reader's goroutine admits; outcomes and settles come from other goroutines.
type gate struct {
	limitEvents, limitBytes int
	now                     func() time.Time

	mu sync.Mutex
	// lanes are those of which events are admitted; gained and left are changes that the reader's goroutine has to take.
	lanes        laneSet
	gained, left []int32
	// deciding are the keys that have stopped and of which the database does not know yet what becomes of them, each with how often that is so.
	deciding map[Key]int
	// at is the time of the call that holds mu.
	at time.Time
	// inFlight holds what was admitted and whose settle has not committed, or has committed while a read was on its way that may still show the
	// row as unpublished.
	inFlight map[Ref]flight
	keys     map[Key]*keyState
	topics   map[string]*topicState
	parked   map[Key]struct{}
	// followers are keys that are parked in the database, each behind the aggregate that it waits for; followersOf are the same by aggregate. Nil while there are none.
	followers   map[Key]Aggregate
	followersOf map[Aggregate]map[Key]struct{}
	// scope is nil when no key stops its aggregate.
	scope *scope
	// delayed are keys that wait for the next attempt with an event; may be nil.
	delayed map[Key]struct{}
	// requested are keys for which an operator's request is being carried out.
	requested map[Key]struct{}
	// paused is what operators keep back.
	paused pauses
	// events and bytes are what the budget is charged for: admitted and not settled.
	events, bytes int
	// stuck is how many of them are in Kafka and can never be settled.
	stuck       int
	outstanding int
	// answered is when the publisher answered last, or when something became outstanding; zero while nothing is.
	answered  time.Time
	admission uint64
	// readsBegun and readsEnded count the reader's statements; settled refs wait in graves for those that began before the settle's commit.
	readsBegun, readsEnded uint64
	graves                 []grave
	releasedKeys           []Key
	releasedTopics         []string
	closed                 bool

	// took counts how long acknowledged events were outstanding; may be nil.
	took *engine.Histogram

	// room is signalled when budget was given back, released when a key or a topic may go on, quiet when nothing is in flight.
	room, released, quiet signal
}

type keyState struct {
	topic       *topicState
	outstanding int
	// answered is when the publisher answered last for the key, or was handed something of it.
	answered time.Time
	// sent is when what is outstanding of the key was handed over: all of it together.
	sent time.Time
	// admission is the call of admit that found the key idle: its events go out together.
	admission uint64
	waiting   []*Event
	// spilled tells that events of the key were dropped from memory: it gets no new ones until it is read again from its oldest on.
	spilled bool
	// released tells that nothing holds the key back but the reader, who has to take it.
	released bool
}

type topicState struct {
	outstanding int
	// err is why the topic is held, since when; nil when it is not.
	err   error
	since time.Time
	// ready tells that a held topic was found in order again: it is released when nothing of it is outstanding.
	ready bool
	// paused tells that an operator keeps it back.
	paused bool
	// due tells that events of it were or may have been dropped: none is admitted until the topic is read again from its oldest on.
	due bool
	// released tells that the reader has to take it.
	released bool
}

// flight is what is kept of an event in flight. The event itself goes when Kafka has it: its payload need not wait for the settle.
type flight struct {
	key  Key
	size int
	// stuck tells that the event is in Kafka and that its row cannot be settled; settled that its settle has committed.
	stuck, settled bool
}

type grave struct {
	ref Ref
	// read is the last read that may still show the row as unpublished.
	read uint64
}

// newGate returns a gate that lets events of the given lanes in, of all that a source has.
func newGate(limitEvents, limitBytes int, now func() time.Time, all int, lanes []int32) *gate {
	return &gate{
		limitEvents: limitEvents,
		limitBytes:  limitBytes,
		now:         now,
		lanes:       newLaneSet(all, lanes),
		deciding:    map[Key]int{},
		inFlight:    map[Ref]flight{},
		keys:        map[Key]*keyState{},
		topics:      map[string]*topicState{},
		parked:      map[Key]struct{}{},
		requested:   map[Key]struct{}{},
		paused:      pauses{keys: map[Key]struct{}{}},
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
	if g.closed || g.paused.source {
		return nil
	}
	g.admission++
	g.at = g.now()
	ready = make([]*Event, 0, len(events))
	for _, e := range events {
		ref, key := e.Ref(), e.Key()
		if _, dup := g.inFlight[ref]; dup {
			continue
		}
		if g.stopped(key) || !g.lanes.has(key) {
			continue
		}
		k := g.keys[key]
		t := g.topicOf(k, key)
		if t.due || k != nil && k.spilled {
			continue
		}
		if g.scope.stops(e.Aggregate) {
			g.follow(k, e)
			continue
		}
		if k == nil {
			k = &keyState{topic: t, admission: g.admission}
			g.keys[key] = k
		}
		size := e.Size()
		g.inFlight[ref] = flight{key: key, size: size}
		g.events++
		g.bytes += size
		if k.admission != g.admission {
			k.waiting = append(k.waiting, e)
			continue
		}
		g.send(k, 1)
		ready = append(ready, e)
	}
	return ready
}

// stopped tells that the key itself is held, whatever its topic does.
func (g *gate) stopped(key Key) bool {
	_, parked := g.parked[key]
	_, requested := g.requested[key]
	_, paused := g.paused.keys[key]
	_, delayed := g.delayed[key]
	return parked || requested || paused || delayed
}

func (g *gate) topic(name string) *topicState {
	t := g.topics[name]
	if t == nil {
		t = &topicState{}
		g.topics[name] = t
	}
	return t
}

// topicOf is the topic of a key, whose state is k if it has one.
func (g *gate) topicOf(k *keyState, key Key) *topicState {
	if k != nil {
		return k.topic
	}
	return g.topic(key.Topic)
}

func (g *gate) send(k *keyState, n int) {
	if g.outstanding == 0 {
		g.answered = g.at
	}
	k.answered = g.at
	if n > 0 {
		k.sent = g.at
	}
	k.outstanding += n
	k.topic.outstanding += n
	g.outstanding += n
}

// spillStuck makes room while some keys are stuck and others are not: it forgets the waiting events of keys that have had no answer since.
func (g *gate) spillStuck(since time.Time) (spilled int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.events
	for _, k := range g.keys {
		if len(k.waiting) > 0 && k.answered.Before(since) {
			g.spill(k)
		}
	}
	return before - g.events
}

// spillLargest forgets the waiting events of the key that has most of them.
func (g *gate) spillLargest() {
	g.mu.Lock()
	defer g.mu.Unlock()
	var largest *keyState
	for _, k := range g.keys {
		if len(k.waiting) > 0 && (largest == nil || len(k.waiting) > len(largest.waiting)) {
			largest = k
		}
	}
	if largest != nil {
		g.spill(largest)
	}
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
func (g *gate) settled(refs []Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	bytes := 0
	for _, ref := range refs {
		f := g.inFlight[ref]
		bytes += f.size
		if g.readsBegun == g.readsEnded {
			delete(g.inFlight, ref)
			continue
		}
		f.settled = true
		g.inFlight[ref] = f
		g.graves = append(g.graves, grave{ref, g.readsBegun})
	}
	g.giveBack(len(refs), bytes)
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

// silentFor is how long events have been outstanding without an answer.
func (g *gate) silentFor() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answered.IsZero() {
		return 0
	}
	return g.now().Sub(g.answered)
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
