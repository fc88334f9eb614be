package competing

import (
	"context"
	"fmt"

	"github.com/outbox-relay/outbox/internal/engine"
	"github.com/outbox-relay/outbox/relay"
)

// noteTopics writes down which topics are held, as far as that has changed: what the metric counts is then in the status too. Keys are not written down: nobody
// can do anything about one but mend the event, and it is tried again by itself.
func (t *term) noteTopics() error {
	_, errs := t.held.count()
	held := map[string]relay.HeldTopic{}
	for name, err := range errs {
		code, reason := relay.ReasonOf(err)
		held[name] = relay.HeldTopic{Topic: name, Code: code, Reason: reason}
	}
	err := t.noted.Write(held, func(c engine.Changes[relay.HeldTopic]) error {
		ctx, cancel := t.life.Attempt(context.WithoutCancel(t.stop))
		defer cancel()
		return t.source.HoldTopics(ctx, t.owner, relay.HeldChange{Anew: c.Anew, Held: c.Put, Released: c.Gone})
	})
	if err != nil {
		return fmt.Errorf("write down the held topics: %w", err)
	}
	return nil
}
