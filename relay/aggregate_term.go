package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// errFollows is the failure of an event that was not sent; what its key waits for is found when it is written down.
var errFollows = &PublishError{Class: ClassEvent, Code: CodeAggregateParked, Err: errors.New("its aggregate is stopped")}

// learnCost bounds what it costs to look for stopped aggregates, of which there may be as many as parked keys: as a part of the time, one in so many.
const learnCost = 20

// learning is what a term remembers of its looks for stopped aggregates.
type learning struct {
	mu sync.Mutex
	// name is that of what was last read; next is when to look again.
	name string
	next time.Time
}

// parksAggregates tells that a policy has ScopeAggregate.
func (c *Config) parksAggregates() bool {
	for _, p := range c.Policies {
		if p.ParkScope == ScopeAggregate {
			return true
		}
	}
	return false
}

// scopeOf is the event's aggregate if it stops with the event's key; else the zero Aggregate.
func (c *Config) scopeOf(e *Event) Aggregate {
	if c.policyOf(e.Topic).ParkScope == ScopeAggregate {
		return e.Aggregate
	}
	return Aggregate{}
}

// parks tells that an event which has just failed stops its aggregate: it will be parked, as far as its policy says. One that waits for another attempt, or is given up, stops none.
func (t *term) parks(o outcome) bool {
	p := t.cfg.policyOf(o.event.Topic)
	if p.ParkScope != ScopeAggregate || o.event.Aggregate == (Aggregate{}) {
		return false
	}
	if code, _ := ReasonOf(o.err); code == CodeCrashLoop {
		return true
	}
	return p.OnFailure == Park && t.attempts.madeOf(o.event.Ref())+1 >= p.attempts(o.err)
}

// decideFollower parks a key that has come to an event of a stopped aggregate, if that still is. It is no attempt with the event.
func (t *term) decideFollower(ctx context.Context, e *Event) error {
	root, stopped := t.gate.rootOf(e.Aggregate)
	if !stopped {
		t.gate.unpark(e.Key())
		t.gate.decided(e.Key())
		return nil
	}
	return t.park(ctx, FailedEvent{
		Key: e.Key(), Event: e.Ref(), EventType: e.Type, Aggregate: e.Aggregate, Code: CodeAggregateParked,
		Reason: fmt.Sprintf("this event belongs to an aggregate that event %s (id %d) of topic %s stops; the key goes on by itself when that one does, or is given up",
			root.Event.EventID, root.Event.ID, engine.Short(root.Key.Topic)),
	})
}

// learnStopped learns which aggregates are stopped in all lanes.
func (t *term) learnStopped(ctx context.Context) error {
	if t.aggregates == nil || t.gate.scope == nil {
		return nil
	}
	t.learning.mu.Lock()
	defer t.learning.mu.Unlock()
	if t.cfg.now().Before(t.learning.next) {
		return nil
	}
	return t.learn(ctx)
}

// learnAnew reads all stopped aggregates, whatever was known.
func (t *term) learnAnew(ctx context.Context) error {
	if t.aggregates == nil || t.gate.scope == nil {
		return nil
	}
	t.learning.mu.Lock()
	defer t.learning.mu.Unlock()
	t.learning.name = ""
	return t.learn(ctx)
}

// learn is called with learning.mu held from before it asks until the gate has the answer: whoever reads later applies later.
func (t *term) learn(ctx context.Context) error {
	began := t.cfg.now()
	s, err := t.aggregates.StoppedAggregates(ctx, t.learning.name)
	if err != nil {
		return fmt.Errorf("read stopped aggregates: %w", err)
	}
	now := t.cfg.now()
	t.learning.next = now.Add(learnCost * now.Sub(began))
	if s.Name != t.learning.name {
		t.learning.name = s.Name
		t.gate.setRoots(t.cfg.inScope(s.All))
	}
	t.freeSoon()
	return nil
}

// inScope leaves out what was parked under another configuration.
func (c *Config) inScope(all []StoppedAggregate) (in []StoppedAggregate) {
	for _, r := range all {
		if c.policyOf(r.Key.Topic).ParkScope == ScopeAggregate {
			in = append(in, r)
		}
	}
	return in
}

// rooted takes in a key that was found parked.
func (t *term) rooted(p ParkedKey) {
	if t.cfg.policyOf(p.Topic).ParkScope == ScopeAggregate {
		t.gate.stopAggregate(StoppedAggregate{p.Aggregate, p.Key, p.Event})
	}
}

// freeSoon has housekeeping free followers, if any may go on.
func (t *term) freeSoon() {
	if t.gate.looseAny() {
		t.toFree.set()
	}
}

// freeFollowers lets followers go on whose aggregates nothing stops any more, as many as one turn allows.
func (t *term) freeFollowers(ctx context.Context) error {
	if t.aggregates == nil {
		return nil
	}
	keys := t.gate.takeLoose(parkAtOnce)
	if len(keys) == 0 {
		return nil
	}
	gone, err := t.aggregates.FreeFollowers(ctx, t.keeper.current(), keys)
	t.gate.freed(keys, gone)
	if err != nil {
		return fmt.Errorf("free %d keys that wait for aggregates: %w", len(keys), err)
	}
	t.cfg.Logger.Info("keys go on: nothing stops their aggregates any more", "keys", len(gone))
	t.freeSoon()
	return nil
}
