package competing

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/outbox-relay/outbox/relay"
)

// noteTopics writes down which topics are held, when that has changed: what the metric counts is then in the status too. Keys are not written down: nobody
// can do anything about one but mend the event, and it is tried again by itself.
func (t *term) noteTopics() error {
	_, errs := t.held.count()
	held := []relay.HeldTopic{}
	for _, name := range slices.Sorted(maps.Keys(errs)) {
		code, reason := relay.ReasonOf(errs[name])
		held = append(held, relay.HeldTopic{Topic: name, Code: code, Reason: reason})
	}
	if t.noted != nil && slices.Equal(t.noted, held) {
		return nil
	}
	ctx, cancel := t.life.Attempt(context.WithoutCancel(t.stop))
	defer cancel()
	if err := t.source.HoldTopics(ctx, t.owner, held); err != nil {
		return fmt.Errorf("write down the held topics: %w", err)
	}
	t.noted = held
	return nil
}
