package retention

import (
	"testing"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
