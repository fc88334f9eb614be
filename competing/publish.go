package competing

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox/relay"
)

// answer is what became of one event.
type answer struct {
	event *relay.Event
	err   error
}

func acked(answers []answer) []relay.Ref {
	var refs []relay.Ref
	for _, a := range answers {
		if a.err == nil {
			refs = append(refs, a.event.Ref())
		}
	}
	return refs
}

// publish hands the events over and returns when every one is answered. It destroys the client, which answers what is left, when ctx ends, when Kafka takes
// longer than PublishTimeout, and when a stop has waited for DrainTimeout: after it has returned nothing of these events is in flight.
func (t *term) publish(ctx context.Context, events []*relay.Event) []answer {
	answers := make([]answer, 0, len(events))
	all := make(chan struct{})
	t.counters.inFlight.Store(int64(len(events)))
	t.counters.sent(t.cfg.now(), len(events))
	t.publisher.Publish(events, func(e *relay.Event, err error) {
		// One call at a time, and the channel orders them before whoever waits.
		answers = append(answers, answer{e, err})
		t.counters.answered(t.cfg.now(), e.Topic, err)
		if len(answers) == len(events) {
			close(all)
		}
	})
	if reason := t.await(ctx, all); reason != "" {
		t.cfg.Logger.Warn("publishing given up: the Kafka client is made anew", "reason", reason, "events", len(events))
		t.publisher.Destroy()
		<-all
	}
	return answers
}

// await returns "" when all is closed, else why it must not be waited for any longer.
func (t *term) await(ctx context.Context, all <-chan struct{}) (reason string) {
	limit := time.NewTimer(t.cfg.PublishTimeout)
	defer limit.Stop()
	var drain <-chan time.Time
	stopping := t.stop.Done()
	for {
		select {
		case <-all:
			return ""
		case <-ctx.Done():
			return context.Cause(ctx).Error()
		case <-limit.C:
			return "Kafka has not acknowledged everything within " + t.cfg.PublishTimeout.String()
		case <-drain:
			return "the relay stops, and Kafka has not acknowledged everything within " + t.cfg.DrainTimeout.String()
		case <-stopping:
			stopping, drain = nil, time.After(t.cfg.DrainTimeout)
		}
	}
}
