package kafka

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/relay"
)

// admit finds the way of one event: to the client, into a queue, or back. Events of a call come in order, and everything that waits
// comes here again in its order.
func (s *session) admit(it *item) {
	t := it.topic
	if t.illegal != nil {
		s.admitIllegal(it)
		return
	}
	if !t.ready {
		t.pending = append(t.pending, it)
		s.askFor(t)
		return
	}
	if !t.known && t.outstanding > 0 {
		t.pending = append(t.pending, it)
		return
	}
	if it.call.isStopped(it.event.Key()) {
		s.finish(it, heldError(it, "an earlier event of its key failed"))
		return
	}
	if it.broken != nil {
		s.refuse(it, it.broken)
		return
	}
	it.part = &t.parts[s.planOf(it, len(t.parts))]
	if it.part.gated {
		it.part.waiting = append(it.part.waiting, it)
		return
	}
	switch fitOf(it.size, t.limit) {
	case fits:
		s.stage(it)
	case fitsMaybe:
		s.sendAlone(it)
	case fitsNot:
		s.tooLarge(it)
	}
}

// planOf chooses the partition of n.
func (s *session) planOf(it *item, n int) int {
	if it.home > 0 && int(it.home) <= n {
		return int(it.home) - 1
	}
	return s.plan.Partition(&it.rec, n)
}

// admitIllegal refuses an event whose topic can never exist: waiting for it would stop its key for ever, with no way out for an operator.
func (s *session) admitIllegal(it *item) {
	if it.call.isStopped(it.event.Key()) {
		s.finish(it, heldError(it, "an earlier event of its key failed"))
		return
	}
	s.refuse(it, illegalError(it.event, it.topic))
}

func illegalError(e *relay.Event, t *topic) *relay.PublishError {
	return rowError(e, codeTopic, fmt.Errorf("no topic can have this name: %w; correct the row's topic", t.illegal))
}

// refuse ends an event by its own fault.
func (s *session) refuse(it *item, err *relay.PublishError) {
	it.call.stop(it.event.Key())
	s.finish(it, s.withBehind(it, err))
}

// tooLarge refuses an event, but not on the word of an old look at the topic: its limit may have been raised since.
func (s *session) tooLarge(it *item) {
	t := it.topic
	if s.limitIsFresh(t) {
		s.refuse(it, tooLargeError(it, t.limit))
		return
	}
	t.ready = false
	s.admit(it)
}

// limitIsFresh tells that the topic's limit can be taken for what it is now, or does not matter.
func (s *session) limitIsFresh(t *topic) bool {
	return s.cfg.now().Sub(t.lookedAt) <= limitFresh || t.limit > maxBatchBytes
}

// stage hands a record to the next flush, and counts it.
func (s *session) stage(it *item) {
	it.part.outstanding++
	it.topic.outstanding++
	s.staged = append(s.staged, it)
}

// flush hands what is staged to the client. Every turn ends with it.
func (s *session) flush() {
	if len(s.staged) == 0 {
		return
	}
	s.send(s.staged)
	clear(s.staged)
	s.staged = s.staged[:0]
}

// send produces records in order.
//
// The client may fail what it has buffered for a partition at any moment, for a batch that it sent before. If that happened between two
// records of one key, the second would go out without the first. So no request leaves while the records are being buffered, and
// none leaves after that before all failures of the meantime are known. If one of them did split a key, the client is destroyed, with
// the second record still inside.
func (s *session) send(items []*item) {
	s.sends++
	s.net.hold()
	defer s.net.release()
	for _, it := range items {
		it.send = s.sends
		it.rec.Context = nil
		it.topic.via.client.Produce(it, &it.rec, s.promise)
		if s.cfg.produced != nil {
			s.cfg.produced(it.event)
		}
	}
	if len(items) < 2 {
		return
	}
	s.awaitPromises(items)
	if splits(items, s.queue.failures(s.sends)) {
		s.kill(errors.New("a failure came between two events of one key; neither was sent, and a new client is made"))
	}
}

// awaitPromises returns when every promise that was due before it has run. A client runs them in one order, and a record without a
// topic fails at once, so its promise comes last.
func (s *session) awaitPromises(items []*item) {
	var asked []*producer
	for _, it := range items {
		if p := it.topic.via; !slices.Contains(asked, p) {
			asked = append(asked, p)
			ran := make(chan struct{})
			p.client.Produce(s.ctx, &kgo.Record{}, func(*kgo.Record, error) { close(ran) })
			<-ran
		}
	}
}

// splits tells whether a record has failed while a later one of its key and partition has not.
func splits(items []*item, failed map[*item]struct{}) bool {
	if len(failed) == 0 {
		return false
	}
	keys := map[relay.Key]struct{}{}
	for _, it := range items {
		if _, ok := failed[it]; ok {
			keys[it.event.Key()] = struct{}{}
		} else if _, ok := keys[it.event.Key()]; ok {
			return true
		}
	}
	return false
}
