//go:build integration && unix

package chaos_test

import (
	"syscall"
	"testing"

	"github.com/outbox-relay/outbox/test/chaos/history"
	"github.com/outbox-relay/outbox/test/chaos/proxy"
)

// What at-least-once delivery cannot close, made on purpose: the judge sees it, counts it, and lets it pass.

// begun is a laboratory of two relays of which the first runs and has published something.
func begun(t *testing.T) (l *lab, owner, heir *relayProcess, s history.Stream) {
	t.Helper()
	l = newLab(t, setup{relays: 2})
	l.relays[0].start()
	l.mustWrite(l.streams[0], 1)
	l.settled("the first event")
	return l, l.relays[0], l.relays[1], l.streams[0]
}

func TestAKilledRelayRepeatsWhatItCouldNotSettleAndNothingElse(t *testing.T) {
	const n = 5
	l, owner, heir, s := begun(t)
	// What the relay sends to the broker it can settle no more.
	sent := seen(owner.kafka[0], func(d proxy.Direction, data []byte) bool {
		if d != proxy.Up || len(data) < n*100 {
			return false
		}
		owner.db.Hold(proxy.Up)
		return true
	})
	l.mustWrite(s, n)
	l.receive(sent, "the relay publishes the events")
	owner.kafka[0].Watch(nil)
	l.await("they are in Kafka", func() bool { return len(l.records(t.Context())) == 1+n })
	over := l.begin(history.Fault{What: "kill -9", Repeats: true})
	owner.kill()
	over()
	owner.db.Reset()
	owner.db.Heal()
	heir.start()
	report := l.judge()
	if !report.OK() || report.Counts[history.Repeated] != n {
		t.Errorf("want %d repeats and nothing wrong: %s", n, report)
	}
}

func TestAProduceThatAFrozenRelayHasHandedOverMakesAStraggler(t *testing.T) {
	l, owner, heir, s := begun(t)
	for _, link := range owner.kafka {
		link.Cut()
	}
	sent := seen(owner.kafka[0], func(d proxy.Direction, data []byte) bool { return d == proxy.Up && len(data) > 5*100 })
	l.mustWrite(s, 5)
	l.receive(sent, "the owner hands the events to the network")
	owner.kafka[0].Watch(nil)
	over := l.begin(history.Fault{What: "freeze", Repeats: true, Freezes: true})
	owner.signal(syscall.SIGSTOP)
	heir.start()
	l.settled("the events that the owner had")
	l.mustWrite(s, 5)
	l.settled("newer events")
	for _, link := range owner.kafka {
		link.Heal()
	}
	l.await("the produce of the frozen relay arrives", func() bool { return len(l.records(t.Context())) == 1+5+5+5 })
	owner.signal(syscall.SIGCONT)
	over()
	l.mustWrite(s, 5)
	report := l.judge()
	if !report.OK() || !report.Has(history.FrozenStraggler) {
		t.Errorf("want stragglers of a frozen process and nothing wrong: %s", report)
	}
}
