package kafka

import (
	"testing"

	"github.com/outbox-relay/outbox/internal/await"
)

func TestMain(m *testing.M) { await.Main(m) }
