// Package await lets a test wait for what must come, without a guess at how long that takes.
package await

import (
	"testing"
	"time"
)

// Limit is how long a test waits in the end; it is no measure of anything.
const Limit = 2 * time.Minute

// Until polls until holds, and fails the test with what when it never does. It must be called from the test's own goroutine.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(Limit)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}
