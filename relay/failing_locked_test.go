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
		if n, more := r.log.count("its row is locked"), r.log.count("more events given up whose rows are locked"); n != burstLines || more != 1 {
			t.Errorf("%d lines and %d that sum up say that rows are locked, want %d and 1", n, more, burstLines)
		}
		if n := r.log.count("locked_by=\"pid 4711\""); n != burstLines {
			t.Errorf("%d lines say who has a row locked, want %d", n, burstLines)
		}
		w.table.lockRows(false)
		w.until("all are moved", func() bool { return len(w.table.deadEvents()) == keys })
		r.wantStopped()
	})
}
