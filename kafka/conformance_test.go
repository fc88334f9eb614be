package kafka

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/relay"
	"github.com/outbox-relay/outbox/relay/relaytest"
)

func TestPublisherKeepsTheContractOfTheRelay(t *testing.T) {
	t.Parallel()
	const topic = "conformance"
	relaytest.Publisher(t, topic, func(t *testing.T) (relay.Publisher, relaytest.Kafka) {
		v := newValve()
		c := fake(t, kfake.ListenFn(v.listen), kfake.SeedTopics(3, topic))
		t.Cleanup(v.heal)
		return newPublisher(t, Config{Brokers: c.ListenAddrs()}), &observed{t, c.ListenAddrs(), v}
	})
}

// observed are the brokers as the contract's checks see them.
type observed struct {
	t       *testing.T
	brokers []string
	valve   *valve
}

func (o *observed) Silence() { o.valve.shut() }

func (o *observed) Records(_ context.Context, topic, key string) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for _, r := range consumed(o.t, o.brokers, topic) {
		if string(r.Key) != key {
			continue
		}
		id, err := uuid.ParseBytes(r.Headers[0].Value)
		if err != nil {
			return nil, fmt.Errorf("read record %d: %w", r.Offset, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
