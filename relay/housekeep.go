package relay

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// housekeep parks keys, asks for missing topics, carries out what operators request, and says when the brokers fall silent.
func (t *term) housekeep(ctx context.Context) error {
	topics := time.NewTicker(t.cfg.TopicCheckInterval)
	defer topics.Stop()
	requests := time.NewTicker(t.cfg.RequestInterval)
	defer requests.Stop()
	silent := false
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case o := <-t.failed:
			err = t.park(ctx, o)
		case <-topics.C:
			t.checkTopics(ctx)
		case <-requests.C:
			silent = t.noteSilence(silent)
			err = t.carryOut(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// park writes down that the key stops at this event; in memory it has stopped already.
func (t *term) park(ctx context.Context, o outcome) error {
	p := ParkedKey{Key: o.event.Key(), Event: o.event.Ref(), EventType: o.event.Type, Code: "UNPUBLISHABLE", Reason: o.err.Error()}
	var pe *PublishError
	if errors.As(o.err, &pe) {
		p.Code = pe.Code
	}
	if err := t.source.Park(ctx, t.claim, p); err != nil {
		return fmt.Errorf("park key: %w", err)
	}
	t.cfg.Logger.Error("key parked: its events wait for an operator, the others go on", "topic", p.Topic, "id", p.Event.ID, "event_id", p.Event.EventID,
		"code", p.Code, "reason", p.Reason)
	return nil
}

// checkTopics releases the held topics that are in order again.
func (t *term) checkTopics(ctx context.Context) {
	held := t.gate.HeldTopics()
	if len(held) == 0 || t.cfg.Once {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, t.cfg.LeaseTTL)
	defer cancel()
	found, err := t.publisher.CheckTopics(ctx, held)
	if err != nil {
		return
	}
	var ready []string
	for _, name := range held {
		if found[name] == nil {
			ready = append(ready, name)
			t.cfg.Logger.Info("topic in order again", "topic", name)
		}
	}
	t.gate.topicsReady(ready)
}

func (t *term) carryOut(ctx context.Context) error {
	released, err := t.source.Requests(ctx, t.claim, t.gate.idle)
	if err != nil {
		return fmt.Errorf("carry out requests: %w", err)
	}
	for _, key := range released {
		t.cfg.Logger.Info("key released", "topic", key.Topic)
		t.gate.unpark(key)
	}
	return nil
}

// noteSilence logs when nothing was acknowledged for a while, once, and when that is over.
func (t *term) noteSilence(before bool) (silent bool) {
	silent = t.silentFor() >= t.cfg.StallTimeout
	if silent && !before {
		_, outstanding := t.gate.load()
		t.cfg.Logger.Error("Kafka acknowledges nothing", "outstanding", outstanding, "for", t.silentFor().Round(time.Second).String(),
			"note", "events wait and are not lost; are the brokers reachable, and enough replicas in sync?")
	}
	if before && !silent {
		t.cfg.Logger.Info("Kafka acknowledges again")
	}
	return silent
}
