package operate

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// pausesEvery is how often a replay looks at what is paused, as relays do; pausesWithin bounds a look.
	pausesEvery  = time.Second
	pausesWithin = 10 * time.Second
)

// refusal says that a pause keeps what it is about from being published again.
func (p Pause) refusal() error {
	why := ""
	if p.Reason != "" {
		why = " (" + p.Reason + ")"
	}
	return Refuse(CodeConflict, "%s is paused since %s by %s%s: nothing of it is published again before outbox resume", p.scope(), p.Since.UTC().Format(time.RFC3339), p.By, why)
}

func (p Pause) scope() Scope {
	return Scope{Kind: p.Scope, Topic: p.Topic, PartitionKey: p.PartitionKey}
}

// keeps tells that a pause keeps a whole topic.
func (p Pause) keeps(topic string) bool {
	return p.Scope == ScopeSource || p.Scope == ScopeTopic && p.Topic == topic
}

// replayable refuses a replay of topics that are paused, and names the keys that it will leave out.
func (s *Service) replayable(ctx context.Context, p Plan) (notes []string, err error) {
	pauses, err := s.store.Pauses(ctx, pausesWithin)
	if err != nil {
		return nil, fmt.Errorf("look at what is paused: %w", err)
	}
	var keys int
	for _, pause := range pauses {
		of := func(t TopicCount) bool {
			return pause.keeps(t.Topic) || pause.Scope == ScopeKey && pause.Topic == t.Topic
		}
		switch concerned := pause.Scope == ScopeSource || slices.ContainsFunc(p.Topics, of); {
		case concerned && pause.Scope == ScopeKey:
			keys++
		case concerned:
			return nil, pause.refusal()
		}
	}
	if keys > 0 {
		notes = append(notes, fmt.Sprintf("keys of these topics that are paused (%d) are left out, and counted as failed", keys))
	}
	return notes, nil
}

// look learns what is paused, now and then.
func (r *replaying) look(ctx context.Context) error {
	if !r.looked.IsZero() && time.Since(r.looked) < pausesEvery {
		return nil
	}
	pauses, err := r.store.Pauses(ctx, pausesWithin)
	if err != nil {
		return fmt.Errorf("look at what is paused: %w", err)
	}
	r.pauses, r.looked = pauses, time.Now()
	return nil
}

// unpaused returns the events that may be published, of the first so many that were tried: all but those of paused keys, which fail. A pause of the source,
// or of the topic of an event, stops the replay in front of that.
func (r *replaying) unpaused(ctx context.Context, events []Settled) (free []Settled, tried int, stop error) {
	if err := r.look(ctx); err != nil {
		return nil, 0, err
	}
	free = make([]Settled, 0, len(events))
	for i, e := range events {
		if at := slices.IndexFunc(r.pauses, func(p Pause) bool { return p.keeps(e.Topic) }); at >= 0 {
			return free, i, r.pauses[at].refusal()
		}
		if slices.ContainsFunc(r.pauses, func(p Pause) bool { return p.scope() == Scope{ScopeKey, e.Topic, e.PartitionKey} }) {
			r.failedEvent(e.ID, "its key is paused: outbox resume key, and replay it then")
		} else {
			free = append(free, e)
		}
	}
	return free, len(events), nil
}
