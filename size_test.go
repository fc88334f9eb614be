package outbox

import (
	"slices"
	"strings"
	"testing"
)

// A call of that size would take too much memory here, so the counter is set near the limit.
func TestTheEventThatMakesACallTooLargeIsNamed(t *testing.T) {
	t.Parallel()
	c := checker{event: 6, bytes: MaxCallBytes - 8}
	eight := row{columns: [columnCount]string{4: "12345", 6: "123"}}
	c.size(eight)
	if len(c.problems) != 0 {
		t.Errorf("at the limit: problems %v", c.problems)
	}
	for c.event = 7; c.event < 10; c.event++ {
		c.size(eight)
	}
	var events []int
	for _, p := range c.problems {
		events = append(events, p.Event)
		if !strings.HasPrefix(p.Text, "makes the call larger than") {
			t.Errorf("problem %v", p)
		}
	}
	if !slices.Equal(events, []int{7}) {
		t.Errorf("problems with events %v, want the first alone", events)
	}
}
