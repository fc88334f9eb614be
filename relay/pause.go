package relay

import (
	"context"
	"fmt"
	"slices"

	"github.com/outbox-relay/outbox/internal/engine"
)

// What operators have paused. Nothing new of it goes out; what the publisher has is finished. It is neither parked nor held: nothing is wrong with it, so it is counted
// by itself. When it is resumed it is released, as a held topic or a parked key is, and read again from its oldest event on.

// pauses are what the gate keeps back because somebody wants it so; topics have theirs in topicState.
type pauses struct {
	keys map[Key]struct{}
	// source tells that nothing at all goes out, resuming that the reader has to take that this is over.
	source, resuming bool
}

// setPauses makes what is paused exactly this.
func (g *gate) setPauses(all []Pause) {
	g.mu.Lock()
	defer g.mu.Unlock()
	source, topics, keys := sorted(all)
	for name, t := range g.topics {
		if _, still := topics[name]; t.paused && !still {
			t.paused = false
			g.freeTopic(name, t)
		}
	}
	for name := range topics {
		g.pauseTopic(name)
	}
	for key := range g.paused.keys {
		if _, still := keys[key]; !still {
			delete(g.paused.keys, key)
			g.goOn(key)
		}
	}
	for key := range keys {
		g.paused.keys[key] = struct{}{}
		g.spillKey(key)
	}
	g.pauseSource(source)
}

// sorted takes pauses apart by their scopes.
func sorted(all []Pause) (source bool, topics map[string]struct{}, keys map[Key]struct{}) {
	topics, keys = map[string]struct{}{}, map[Key]struct{}{}
	for _, p := range all {
		switch p.Scope {
		case PauseSource:
			source = true
		case PauseTopic:
			topics[p.Topic] = struct{}{}
		case PauseKey:
			keys[Key{p.Topic, p.PartitionKey}] = struct{}{}
		}
	}
	return source, topics, keys
}

func (g *gate) pauseTopic(name string) {
	t := g.topic(name)
	if t.paused {
		return
	}
	t.paused, t.due = true, true
	for _, k := range g.keys {
		if k.topic == t {
			g.spill(k)
		}
	}
}

// pauseSource stops everything, or has the reader take that it goes on. It stays stopped until then: a newer event must not be admitted before all that was
// dropped is read again.
func (g *gate) pauseSource(paused bool) {
	switch {
	case paused && !g.paused.source:
		g.paused.source = true
		for _, k := range g.keys {
			g.spill(k)
		}
	case paused:
		g.paused.resuming = false
	case g.paused.source && !g.paused.resuming:
		g.paused.resuming = true
		g.released.set()
	}
}

// spillKey forgets the waiting events of a key that was stopped: they must not go out when those before them are acknowledged.
func (g *gate) spillKey(key Key) {
	if k := g.keys[key]; k != nil {
		g.spill(k)
	}
}

// takeResumed ends the pause of the source when it is over, and returns the lanes that are to be read again by it.
func (g *gate) takeResumed() (lanes []int32) {
	if !g.paused.resuming {
		return nil
	}
	g.paused.source, g.paused.resuming = false, false
	for l, held := range g.lanes.held {
		if held {
			lanes = append(lanes, int32(l))
		}
	}
	return lanes
}

// sourcePaused tells that nothing is to be read.
func (g *gate) sourcePaused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.paused.source
}

// pausedNow tells what is paused: everything, which topics, and how many keys.
func (g *gate) pausedNow() (source bool, topics []string, keys int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, t := range g.topics {
		if t.paused {
			topics = append(topics, name)
		}
	}
	slices.Sort(topics)
	return g.paused.source, topics, len(g.paused.keys)
}

// readPauses learns what is paused. Called before anything goes out in a term, and whenever it has got another name.
func (t *term) readPauses(ctx context.Context) error {
	p, err := t.source.Pauses(ctx)
	if err != nil {
		return fmt.Errorf("read what is paused: %w", err)
	}
	t.gate.setPauses(p.All)
	t.notePauses(p.All)
	t.pauses = p
	return nil
}

// learnPauses reads what is paused when a look has another name for it. What the term begins with is read by whoever begins it.
func (s *share) learnPauses(ctx context.Context, name string) error {
	select {
	case <-s.pausesKnown:
	default:
		return nil
	}
	if name == s.pauses.Name {
		return nil
	}
	return s.keeper.bounded(ctx, s.readPauses)
}

// notePauses says what was paused and resumed since the last time.
func (t *term) notePauses(now []Pause) {
	was := scopes(t.pauses.All)
	is := scopes(now)
	for _, p := range now {
		if _, known := was[scopeOf(p)]; !known {
			t.cfg.Logger.Warn("paused: nothing of it goes out until it is resumed", append(scopeOf(p).attrs(t.cfg.LogKeys), "by", p.By, "reason", p.Reason)...)
		}
	}
	for _, p := range t.pauses.All {
		if _, still := is[scopeOf(p)]; !still {
			t.cfg.Logger.Info("resumed", scopeOf(p).attrs(t.cfg.LogKeys)...)
		}
	}
}

// pausedScope is a pause without who, why and when.
type pausedScope struct {
	scope PauseScope
	key   Key
}

func scopeOf(p Pause) pausedScope { return pausedScope{p.Scope, Key{p.Topic, p.PartitionKey}} }

func scopes(all []Pause) map[pausedScope]struct{} {
	set := make(map[pausedScope]struct{}, len(all))
	for _, p := range all {
		set[scopeOf(p)] = struct{}{}
	}
	return set
}

// attrs are for the log, which gets no partition key: it may be personal.
func (s pausedScope) attrs(keys bool) []any {
	if s.scope == PauseSource {
		return []any{"scope", string(s.scope)}
	}
	return engine.WithKey(keys && s.scope == PauseKey, s.key.PartitionKey, "scope", string(s.scope), "topic", engine.Short(s.key.Topic))
}
