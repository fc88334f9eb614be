package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outbox-relay/outbox/relay"
)

func isSize(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// askFor has an idle topic looked at.
func (s *session) askFor(t *topic) {
	if !t.asked && t.idle() {
		t.asked = true
		poke(s.look)
	}
}

// lookAgain stops a topic until it was looked at again.
func (s *session) lookAgain(t *topic) { t.ready = false }

// whenIdle goes on with a topic that has waited for its last record.
func (s *session) whenIdle(t *topic) {
	if !t.ready {
		s.askFor(t)
	}
}

// failTopic ends an event, and everything of its topic that is not in the client's hands, by the topic's fault. Nothing more goes to the
// topic before it was looked at again.
func (s *session) failTopic(t *topic, it *item, err *relay.PublishError) {
	t.ready = false
	s.finish(it, err)
	for i := range t.parts {
		p := &t.parts[i]
		for _, f := range p.failed {
			s.finish(f.item, err)
		}
		for _, segment := range p.segments {
			s.finishAll(segment, err)
		}
		s.finishAll(p.waiting, err)
		p.failed, p.segments, p.waiting = nil, nil, nil
		p.open()
	}
	s.finishAll(t.pending, err)
	t.pending = nil
}

func (s *session) finishAll(items []*item, err *relay.PublishError) {
	for _, it := range items {
		s.finish(it, err)
	}
}

// takeOver uses what a look found at an idle topic.
func (s *session) takeOver(t *topic, info Topic) {
	pending := t.pending
	t.pending = nil
	if info.Err != nil {
		for _, it := range pending {
			s.finish(it, info.Err)
		}
		s.leave(t)
		delete(s.topics, t.name)
		return
	}
	if info.MaxMessageBytes == 0 && t.info.Name == "" {
		s.cfg.Logger.Warn("topic's max.message.bytes cannot be read; grant DESCRIBE_CONFIGS on the topic", "topic", t.name,
			"assumed", s.cfg.MaxMessageBytes)
	}
	t.adopt(info, s.cfg.MaxMessageBytes)
	s.limits.Store(t.name, int32(clientLimit(t.limit)))
	t.ready = s.join(t)
	for _, it := range pending {
		s.admit(it)
	}
}

// learn goes on with a topic whose first record had an answer.
func (s *session) learn(t *topic) {
	if t.known {
		return
	}
	t.known = true
	pending := t.pending
	t.pending = nil
	for _, it := range pending {
		s.admit(it)
	}
}

// lookLoop looks at the topics that were asked for, until the session ends. An outage is waited out.
func (s *session) lookLoop() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.look:
		}
		for !s.lookOnce() {
			if !s.pause(retryBackoff) {
				return
			}
		}
	}
}

// lookPortion is for how many topics the brokers are asked at once: the answer for very many does not come in time, and none of them could be used before.
const lookPortion = 500

// lookOnce tells whether it got an answer.
func (s *session) lookOnce() bool {
	names := s.askedFor()
	for portion := range slices.Chunk(names, lookPortion) {
		found, err := s.lookAt(s.ctx, portion)
		if err != nil {
			s.cfg.Logger.Debug("look at kafka topics", "error", s.cfg.sent.discreet(err))
			return false
		}
		s.take(found)
	}
	if len(names) == 0 {
		s.take(nil)
	}
	return true
}

// take uses what a look has found.
func (s *session) take(found map[string]Topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, info := range found {
		s.found(info)
	}
	s.flush()
}

func (s *session) lookAt(ctx context.Context, names []string) (map[string]Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.produceTimeout()+s.cfg.requestOverhead())
	defer cancel()
	found, err := s.lookup.topics(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("look at topics: %w", err)
	}
	return found, nil
}

// askedFor returns the topics to be looked at. Those that are stale leave their client first.
func (s *session) askedFor() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.topics {
		if !t.asked {
			continue
		}
		names = append(names, name)
		if t.stale && !t.ready && t.idle() {
			t.stale = false
			s.leave(t)
		}
	}
	return names
}

// found takes the answer for one topic. It is used when the topic is idle and waits for it. When a topic in use has changed, the topic
// stops, and is looked at again once it is idle. One in use that is gone will say so itself.
func (s *session) found(info Topic) {
	t := s.topics[info.Name]
	if t == nil {
		return
	}
	t.asked = false
	t.lookedAt = s.cfg.now()
	if info.Err == nil && info.id == t.info.id && info.Partitions < t.info.Partitions {
		info.Partitions = t.info.Partitions // partitions are never taken away: this broker lags behind
	}
	if t.info.Name != "" && info.Err == nil && t.differs(info) {
		t.ready, t.stale = false, true
		t.info = info
	}
	switch {
	case t.stale:
		s.whenIdle(t)
	case !t.ready && t.idle():
		s.takeOver(t, info)
	}
}

// refreshTopics has every topic looked at. Those in use go on meanwhile; one that is gone will say so itself.
func (s *session) refreshTopics() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.topics {
		t.asked = true
	}
	if len(s.topics) > 0 {
		poke(s.look)
	}
}

// pause waits, and tells whether the session still lives.
func (s *session) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
