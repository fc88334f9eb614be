//go:build integration && unix

package chaos_test

import (
	"testing"
	"time"
)

// Deploys are no fault: whoever comes and goes in order, every event arrives once, and in order.
func TestRelaysThatComeAndGoInOrderCostNothing(t *testing.T) {
	l := newLab(t, setup{relays: slots, topics: 2, keys: 10})
	l.relays[0].start()
	stop := l.writers(4, 20*time.Millisecond, 1)
	more := func() {
		seen := l.ledger.size()
		l.await("50 more transactions are committed", func() bool { return l.ledger.size() > seen+50 })
	}
	for round := range slots {
		more()
		l.relays[(round+1)%slots].start()
		more()
		if r := l.relays[round%slots]; !r.stop() {
			t.Errorf("%s left something behind; it says:\n%s", r.name(), r.said.tail(5))
		}
	}
	stop()
	report := l.judge()
	t.Log(report.Summary(), l.messages())
	for _, c := range l.complaints() {
		t.Error(c)
	}
	if !report.OK() {
		t.Error(report)
	}
}
