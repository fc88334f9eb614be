package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outbox-relay/outbox/relay"
)

// What is told of one failure about those behind it is bounded: their payloads stay in memory until the relay has decided on them.
const (
	behindEvents = 2000
	behindBytes  = 4 << 20
)

// withBehind adds to the failure of an event which later ones of its key are refused in this call, too, as far as that is known without sending them. A limit that was not looked at
// just now tells nothing.
func (s *session) withBehind(it *item, err *relay.PublishError) *relay.PublishError {
	var behind []relay.Refused
	bytes := 0
	for _, other := range it.call.behind(it) {
		why := s.refusalOf(other, it.topic)
		if why == nil {
			why = s.likewise(other, it, err)
		}
		if why == nil || other.finished {
			continue
		}
		if bytes += len(other.event.Payload); bytes > behindBytes || len(behind) == behindEvents {
			break
		}
		behind = append(behind, relay.Refused{Event: other.event, Err: why})
	}
	if len(behind) == 0 {
		return err
	}
	all := *err
	all.Err = &relay.BehindError{Err: err.Err, Behind: behind}
	return &all
}

// refusalOf is why an event of the topic is refused without being sent; nil when it is not, or when that is not known.
func (s *session) refusalOf(it *item, t *topic) *relay.PublishError {
	switch {
	case t.illegal != nil:
		return illegalError(it.event, t)
	case it.broken != nil:
		return it.broken
	case it.named != nil:
		return it.named
	case t.ready && s.limitIsFresh(t) && fitOf(it.size, t.limit) == fitsNot:
		return tooLargeError(it, t.limit)
	}
	return nil
}

// likewise refuses an event because the broker has just refused one that is no larger for its size: what allows less than the topic's limit says need not be known. A compressed
// record may be smaller than its size says.
func (s *session) likewise(it, refused *item, err *relay.PublishError) *relay.PublishError {
	tooLarge := err.Code == kerr.MessageTooLarge.Message || err.Code == kerr.RecordListTooLarge.Message
	if !tooLarge || s.cfg.Compression != "none" || it.size < refused.size {
		return nil
	}
	return likewiseError(it, refused, err.Code)
}

// behind returns what follows an item of its key in the call. The first time it sorts all of them by their keys, so that a call whose keys all fail is looked through once.
func (c *call) behind(it *item) []*item {
	if c.byKey == nil {
		c.byKey = make(map[relay.Key][]*item)
		for i := range c.items {
			key := c.items[i].event.Key()
			c.byKey[key] = append(c.byKey[key], &c.items[i])
		}
	}
	all := c.byKey[it.event.Key()]
	for i, other := range all {
		if other == it {
			return all[i+1:]
		}
	}
	return nil
}
