package relay

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkAdmit is of batches of 2,000 events of 500 keys, which are answered and measured before the next: without parked aggregates, with none stopped, and with 10,000 others stopped.
func BenchmarkAdmit(b *testing.B) {
	for _, stopped := range []int{-1, 0, 10_000} {
		name := "key"
		if stopped >= 0 {
			name = fmt.Sprintf("aggregate, %d stopped", stopped)
		}
		b.Run(name, func(b *testing.B) {
			g := newGate(100_000, 1<<30, time.Now, 8, []int32{0, 1, 2, 3, 4, 5, 6, 7})
			var m measures
			m.init()
			m.noteRead(time.Now(), time.Now(), Batch{Now: time.Now()}, nil)
			g.took = m.publish
			if stopped >= 0 {
				g.scope = newScope(func(outcome) bool { return false })
			}
			for i := range stopped {
				key := Key{"stopped", fmt.Sprint(i)}
				g.park(key)
				g.stopAggregate(StoppedAggregate{Aggregate{"Order", fmt.Sprint("stopped ", i)}, key, Ref{ID: int64(i + 1)}})
			}
			events := make([]*Event, 2000)
			outcomes := make([]outcome, len(events))
			for i := range events {
				events[i] = testEvent(int64(i+1), Key{"orders", fmt.Sprint(i % 500)})
				events[i].Aggregate = Aggregate{"Order", fmt.Sprint(i % 500)}
				outcomes[i] = outcome{event: events[i]}
			}
			b.ReportAllocs()
			for b.Loop() {
				ready := g.admit(events)
				v := g.resolve(outcomes)
				m.noteTopics(outcomes)
				for _, o := range outcomes {
					m.noteAcked(o.event, g.at)
				}
				if len(ready) != len(events) || len(v.acked) != len(events) {
					b.Fatal("not all were admitted and acknowledged")
				}
				g.settled(v.acked)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(events)), "ns/event")
		})
	}
}
