package relay_test

import (
	"testing"

	"github.com/outbox-relay/outbox/relay"
	"github.com/outbox-relay/outbox/relay/relaytest"
)

// The publisher that the engine's tests use keeps to the contract.
func TestFakePublisherConforms(t *testing.T) {
	t.Parallel()
	relaytest.Publisher(t, "orders", func(*testing.T) (relay.Publisher, relaytest.Kafka) { return relay.NewFakePublisher() })
}
