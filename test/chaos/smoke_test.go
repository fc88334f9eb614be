//go:build integration && unix

package chaos_test

import (
	"testing"
	"time"
)

func TestWithoutFaultsEverythingArrivesOnce(t *testing.T) {
	l := newLab(t, setup{relays: 2, topics: 2, keys: 10})
	for _, r := range l.relays {
		r.start()
	}
	stop := l.writers(4, 5*time.Millisecond, 1)
	l.await("400 transactions are committed", func() bool { return l.ledger.size() > 400 })
	stop()
	report := l.judge()
	t.Log(report.Summary(), l.messages(), l.complaints())
	if !report.OK() {
		t.Error(report)
	}
}
