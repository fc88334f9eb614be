package relay

import (
	"context"

	"github.com/google/uuid"
)

// FakeKafka shows a fakeKafka to the conformance check.
type FakeKafka struct {
	*fakeKafka
	publisher *fakePublisher
}

// NewFakePublisher makes a publisher that refuses large payloads, on brokers that have every topic but missing-topic.
func NewFakePublisher() (Publisher, FakeKafka) {
	kafka := newFakeKafka()
	kafka.setMissing("missing-topic", true)
	p := &fakePublisher{kafka: kafka, maxDelay: testDelay}
	p.fail = func(e *Event) error {
		if len(e.Payload) > 1<<20 {
			return failure(ClassEvent)
		}
		return nil
	}
	return p, FakeKafka{kafka, p}
}

// Records implements relaytest.Kafka.
func (k FakeKafka) Records(_ context.Context, topic, key string) (records []uuid.UUID, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.log {
		if e.Key() == (Key{topic, key}) {
			records = append(records, e.EventID)
		}
	}
	return records, nil
}

// Silence implements relaytest.Kafka.
func (k FakeKafka) Silence() {
	k.publisher.mu.Lock()
	defer k.publisher.mu.Unlock()
	k.publisher.hold = newHeld().all
}
