package kafka

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A client cannot be made to forget a topic without danger: it would begin again at sequence number 0 with the same producer id and epoch,
// and a broker that has a batch of that number among the last five of the partition acknowledges the new one as a repetition, and does
// not write it. So a topic that has changed gets another client, which has another producer id. The topics that have not changed stay
// with theirs.

// producer is one client and how many topics use it. It is guarded by the session's mutex.
type producer struct {
	client *kgo.Client
	topics int
}

func (s *session) newProducer() (*producer, error) {
	opts := append(clientOptions(s.cfg, s.net), kgo.RecordPartitioner(asPlanned{}), kgo.ProducerBatchMaxBytesFn(s.batchMaxBytes))
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w", err)
	}
	p := &producer{client: client}
	s.producers = append(s.producers, p)
	s.newest = p
	return p, nil
}

// join gives a topic the newest client, and tells whether there is one.
func (s *session) join(t *topic) bool {
	if t.via != nil {
		return true
	}
	if s.newest == nil {
		if !s.alive() {
			return false
		}
		if _, err := s.newProducer(); err != nil {
			s.kill(err)
			return false
		}
	}
	t.via = s.newest
	t.via.topics++
	return true
}

// leave takes an idle topic from its client, which never gets it again: the next topic to join gets a new client. A
// client that has no topics any more is closed, but for the first, which looks at topics.
func (s *session) leave(t *topic) {
	p := t.via
	if p == nil {
		return
	}
	if s.newest == p {
		s.newest = nil
	}
	t.via, t.known = nil, false
	p.topics--
	if p.topics == 0 && p != s.producers[0] {
		s.producers = slices.DeleteFunc(s.producers, func(other *producer) bool { return other == p })
		go p.client.Close()
	}
}
