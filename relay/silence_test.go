package relay

import (
	"testing"
	"time"
)

// What is outstanding shows a silence, and so does a question while nothing is; an answer ends it.
func TestARelayReportsThatKafkaIsSilent(t *testing.T) {
	for name, busy := range map[string]bool{"with events outstanding": true, "with nothing to do": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.table.insert(keyA)
				r := w.relay(Config{})
				n := between(r)
				r.start()
				w.until("the first event is settled", func() bool { return w.table.open() == 0 })
				silent := func() time.Duration { return w.table.silent(r.owner.ID) }
				after(30 * time.Second)
				if silent() != 0 {
					t.Fatalf("silent for %s while Kafka answers", silent())
				}
				n.cut()
				if busy {
					w.table.insert(keyA)
				}
				after(14 * time.Second)
				if got := silent(); got < worthReporting {
					t.Errorf("silent for %s after 14 s, want %s or more", got, worthReporting)
				}
				n.heal()
				w.until("it answers", func() bool { return silent() == 0 })
			})
		})
	}
}
