package relay

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// Operators look at the reports: they must not be told for seconds that Kafka is away when the log says that it is back.
func TestTheEndOfASilenceIsReportedAtTheNextLook(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insert(keyA)
		r := w.relay(Config{LookInterval: time.Second})
		n := between(r)
		r.start()
		w.until("the first event is settled", func() bool { return w.table.open() == 0 })
		for round := range 5 {
			n.cut()
			w.table.insert(keyA)
			// Each round ends at another place between two reports.
			after(20*time.Second + time.Duration(round)*1100*time.Millisecond)
			if w.table.silent(r.owner.ID) < engine.WorthReporting {
				t.Fatalf("round %d: the silence was not reported", round)
			}
			n.heal()
			w.until("the event is settled", func() bool { return w.table.open() == 0 })
			after(1100 * time.Millisecond)
			if got := w.table.silent(r.owner.ID); got != 0 {
				t.Errorf("round %d: reported as silent for %s more than a look after the acknowledgement", round, got)
			}
		}
	})
}
