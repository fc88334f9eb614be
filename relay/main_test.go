package relay_test

import (
	"os"
	"testing"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

// TestMain runs the tests, or is the relay that a crash test kills.
func TestMain(m *testing.M) {
	if os.Getenv(crashURL) != "" {
		crashChild()
	}
	pgtest.Main(m)
}
