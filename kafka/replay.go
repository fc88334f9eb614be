package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// HeaderReplay marks a record that was published again because an operator asked for it; its value is the id of the job.
const HeaderReplay = "x-outbox-replay"

// replayGrace is how long a replay that is interrupted waits for what is on its way, before it gives up knowing.
const replayGrace = 5 * time.Second

// Replayer implements [operate.Publisher]: it publishes settled events again by a client of its own, one call at a time. Its records are those
// of [Publisher], with the header x-outbox-replay behind all others.
type Replayer struct {
	publisher *Publisher
	grace     time.Duration
}

// NewReplayer checks the configuration and connects to nothing yet. CreateTopics is not obeyed: what was published once had a topic, and one that is
// gone shall not come back by a replay.
func NewReplayer(c Config) (*Replayer, error) {
	c.CreateTopics = nil
	p, err := NewPublisher(c)
	if err != nil {
		return nil, err
	}
	return &Replayer{publisher: p, grace: replayGrace}, nil
}

// Open implements [operate.Publisher].
func (r *Replayer) Open(ctx context.Context) error { return r.publisher.Open(ctx) }

// Close implements [operate.Publisher].
func (r *Replayer) Close() { r.publisher.Destroy() }

// Republish implements [operate.Publisher]. Behind an event that fails no later one of its key is sent in the same call.
func (r *Replayer) Republish(ctx context.Context, events []operate.Settled, mark string) (errs []error, lost error) {
	out := make([]*relay.Event, len(events))
	for i, e := range events {
		out[i] = &relay.Event{
			ID: e.ID, EventID: e.EventID, Type: e.Type, Topic: e.Topic, PartitionKey: e.PartitionKey,
			Payload: e.Payload, Headers: e.Headers, CreatedAt: e.CreatedAt,
		}
	}
	errs, lost = r.send(ctx, out, func(done func(*relay.Event, error)) *call {
		c := newCall(out, done)
		c.mark(HeaderReplay, mark)
		return c
	})
	for i, err := range errs {
		errs[i] = withMark(err, mark)
	}
	return errs, lost
}

// withMark says of a record that is too large what the header has to do with it: a limit that was enough for the relay may not be enough for a replay.
func withMark(err error, mark string) error {
	p, ok := errors.AsType[*relay.PublishError](err)
	if !ok || p.Code != kerr.MessageTooLarge.Message {
		return err
	}
	marked := *p
	marked.Err = fmt.Errorf("%w; %d bytes of that are the header %s, which the relay's record has not", p.Err, lengthAnd(len(HeaderReplay))+lengthAnd(len(mark)), HeaderReplay)
	return &marked
}

// send publishes a call of the events, and returns when each is answered.
func (r *Replayer) send(ctx context.Context, events []*relay.Event, newOf func(done func(*relay.Event, error)) *call) (errs []error, lost error) {
	errs = make([]error, len(events))
	if len(events) == 0 {
		return errs, nil
	}
	all := make(chan struct{})
	place, left := make(map[*relay.Event]int, len(events)), len(events)
	for i, e := range events {
		place[e] = i
	}
	// done is called one call at a time, so it needs no lock; closing the channel hands its work over.
	done := func(e *relay.Event, err error) {
		errs[place[e]] = err
		if left--; left == 0 {
			close(all)
		}
	}
	if s := r.publisher.session(); s == nil || !s.publish(newOf(done)) {
		go r.publisher.refuse(events, done)
	}
	r.await(ctx, all)
	for _, err := range errs {
		if err != nil && relay.ClassOf(err) == relay.ClassUnknown {
			return errs, err
		}
	}
	return errs, nil
}

// await returns when everything is answered. Destroying the client answers what is left.
func (r *Replayer) await(ctx context.Context, all <-chan struct{}) {
	select {
	case <-all:
		return
	case <-ctx.Done():
	}
	grace := time.NewTimer(r.grace)
	defer grace.Stop()
	select {
	case <-all:
	case <-grace.C:
		r.publisher.Destroy()
		<-all
	}
}

// mark adds a header to each record.
func (c *call) mark(name, value string) {
	h := kgo.RecordHeader{Key: name, Value: []byte(value)}
	for i := range c.items {
		it := &c.items[i]
		it.rec.Headers = append(it.rec.Headers, h)
		it.size = recordSize(&it.rec)
	}
}

var _ operate.Publisher = (*Replayer)(nil)
