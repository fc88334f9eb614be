package kafka

import (
	"slices"

	"github.com/outbox-relay/outbox/relay"
)

// A rejected batch takes with it everything that the client has buffered behind it in the partition, and nothing says which record was
// the reason. The partition is therefore closed to new events. When nothing of it is outstanding any more, what failed is sent again in
// halves, one after the other and in order, until one event fails alone. The order of every key holds, because of two halves the
// second is not sent before the first is done, and because nothing else of the partition is sent meanwhile. Where the broker names the
// records that it does not accept, those are the reason, and the others are sent again together.

// next goes on with a closed partition of which nothing is outstanding: it looks at what failed, and sends the next segment or opens
// the partition.
func (s *session) next(p *partition) {
	if len(p.failed) > 0 {
		s.divide(p)
	}
	for len(p.segments) > 0 {
		segment := p.segments[0]
		p.segments = p.segments[1:]
		if s.stageSegment(segment) {
			return
		}
	}
	p.segments = nil
	waiting := p.waiting
	p.waiting = nil
	p.open()
	for _, it := range waiting {
		s.admit(it)
	}
}

// divide blames an event that failed alone, or those that were named, and makes two segments of more than one.
func (s *session) divide(p *partition) {
	failed := p.failed
	p.failed = nil
	s.noteRejection(p, failed)
	if named := s.net.naming.take(failed); len(named) > 0 {
		s.blameNamed(p, failed, named)
		return
	}
	if len(failed) == 1 {
		s.blame(failed[0])
		return
	}
	items := make([]*item, len(failed))
	for i, f := range failed {
		items[i] = f.item
	}
	half := (len(items) + 1) / 2
	p.segments = slices.Insert(p.segments, 0, items[:half], items[half:])
}

// blameNamed has the events end that the broker has named: of each key the first, which tells of the others. What is in front of it goes first, all such together; what is
// behind it is held.
func (s *session) blameNamed(p *partition, failed []failure, named map[*item]string) {
	var first, then []*item
	stops := map[relay.Key]struct{}{}
	for _, f := range failed {
		it, key := f.item, f.item.event.Key()
		if reason, ok := named[it]; ok {
			it.named = namedError(it, f.err, shortened(s.cfg.sent.discreetText(reason), longestNamed))
			stops[key] = struct{}{}
		}
		if _, ok := stops[key]; ok {
			then = append(then, it)
		} else {
			first = append(first, it)
		}
	}
	p.segments = slices.Insert(p.segments, 0, first, then)
}

// blame ends an event that was alone in its batch when the batch was rejected, and so is the reason.
func (s *session) blame(f failure) {
	if f.item.rec.Partition != f.item.part.id {
		// The client knew fewer partitions than we did, so the event had company that we did not see.
		s.finish(f.item, heldError(f.item, "the topic's partitions have changed"))
		f.item.call.stop(f.item.event.Key())
		return
	}
	s.refuse(f.item, eventError(f.item, f.err))
}

// stageSegment sends what may still be sent of a segment, and tells whether there was anything.
func (s *session) stageSegment(segment []*item) bool {
	staged := false
	for _, it := range segment {
		if it.finished {
			continue
		}
		if it.call.isStopped(it.event.Key()) {
			s.finish(it, heldError(it, "an earlier event of its key failed"))
			continue
		}
		if it.named != nil {
			s.refuse(it, it.named)
			continue
		}
		s.stage(it)
		staged = true
	}
	return staged
}

// sendAlone sends an event when nothing else of its partition is outstanding, and keeps others back until it is done.
func (s *session) sendAlone(it *item) {
	p := it.part
	p.close()
	p.segments = append(p.segments, []*item{it})
	if p.outstanding == 0 {
		s.next(p)
	}
}

// noteRejection has the topic looked at again: a rejection for size means that the limit is not what we think.
func (s *session) noteRejection(p *partition, failed []failure) {
	t := p.topic
	s.net.naming.begin()
	code := codeOf(failed[0].err, codeUnexpected)
	s.rejections.say(t.name, p.id, code, rule(failed[0].err).advice, len(failed))
	if isSize(failed[0].err) {
		s.lookAgain(t)
	}
}
