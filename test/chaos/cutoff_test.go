//go:build integration && unix

package chaos_test

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox/test/chaos/history"
)

// A relay that Kafka does not answer for a minute, while it answers another one, may keep its lanes or leave them to the other. Either way nothing is lost and
// no key turns, and what it had in flight comes again at most.
func TestARelayThatIsCutOffFromKafkaForLongTurnsNoKey(t *testing.T) {
	l := newLab(t, setup{relays: 2, topics: 2, keys: 20})
	for _, r := range l.relays {
		r.start()
	}
	l.await("both have lanes", func() bool { return l.count("SELECT count(DISTINCT owner) FROM outbox.lane") == 2 })
	stop := l.writers(4, 20*time.Millisecond, 1)
	l.await("50 transactions are committed", func() bool { return l.ledger.size() > 50 })
	over := l.begin(history.Fault{What: "relay 1: brokers cut off for long", Repeats: true})
	mend := cutBrokers(l, step{relay: 0})
	for waited := time.Duration(0); waited < longCut; waited += longCut / 5 {
		<-time.After(longCut / 5)
		t.Logf("%s after the cut %d of %d events are unpublished", waited+longCut/5, l.unpublished(), l.count("SELECT count(*) FROM outbox_event"))
	}
	mend()
	over()
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
