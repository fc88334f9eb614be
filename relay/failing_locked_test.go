package relay

import (
	"fmt"
	"testing"
	"time"
)

// Nothing else fails any more: what the database does not take at once is moved all the same.
func TestAllEventsAreMovedWhoseRowsWereLockedThoughNothingElseFails(t *testing.T) {
	inWorld(t, func(w *world) {
		const keys = 2*buriedAtOnce + 1
		w.table.insertMany(keys, func(i int) Key { return Key{"orders", fmt.Sprint("key", i)} })
		w.table.lockRows(true)
		r := w.relay(Config{Policies: []Policy{{OnFailure: Skip}}})
		r.publisher.fail = func(*Event) error { return failure(ClassEvent) }
		r.start()
		w.until("all have failed", func() bool { return r.Stats().Errors[ClassEvent] == keys })
		after(time.Minute)
		if n := len(w.table.deadEvents()); n > 0 {
			t.Errorf("%d events are moved whose rows are locked", n)
		}
		w.table.lockRows(false)
		w.until("all are moved", func() bool { return len(w.table.deadEvents()) == keys })
		r.wantStopped()
	})
}
