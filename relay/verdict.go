package relay

import "time"

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
	acked []Ref
	// failed are to be decided on.
	failed []outcome
	// heldTopics are the topics that stopped with this batch.
	heldTopics map[string]error
	// unknown is the first outcome that nobody knows, and unknowns how many there are: the client is gone and the term with it.
	unknown  error
	unknowns int
}

// resolve takes outcomes in the order in which they came.
func (g *gate) resolve(outcomes []outcome) verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = g.now()
	var v verdict
	v.acked = make([]Ref, 0, len(outcomes))
	for _, o := range outcomes {
		key := o.event.Key()
		k := g.keys[key]
		g.send(k, -1)
		k.answered = g.at
		if o.err == nil {
			v.acked = append(v.acked, o.event.Ref())
			g.took.AddDuration(g.at.Sub(k.sent))
		} else {
			g.fail(&v, k, o)
		}
		g.settleKey(&v, key, k)
	}
	g.answered = g.at
	if g.outstanding == 0 {
		g.answered = time.Time{}
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
			g.deciding[key]++
			if g.scope != nil && g.scope.parks(o) {
				g.scope.add(StoppedAggregate{o.event.Aggregate, key, o.event.Ref()})
			}
		}
	case ClassTopic:
		if k.topic.err == nil {
			k.topic.err, k.topic.since, k.topic.ready, k.topic.due = o.err, g.at, false, true
			if v.heldTopics == nil {
				v.heldTopics = map[string]error{}
			}
			v.heldTopics[key.Topic] = o.err
		}
	case ClassHeld:
	default:
		// An outage is the publisher's to wait out: one that gives up on an event is made anew like one that does not know.
		v.unknowns++
		if v.unknown == nil {
			v.unknown = o.err
		}
	}
	g.spill(k)
}

// settleKey lets the key go on, or away, when nothing of it is outstanding any more.
func (g *gate) settleKey(v *verdict, key Key, k *keyState) {
	g.freeTopic(key.Topic, k.topic)
	if k.outstanding > 0 {
		return
	}
	switch {
	case k.spilled:
		g.releaseKey(key, k)
	case len(k.waiting) == 0:
		delete(g.keys, key)
	case g.scope.stopsAny(k.waiting):
		g.spill(k)
		g.releaseKey(key, k)
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
