package relay

import (
	"fmt"
	"testing"
	"time"
)

func TestABurstOfParkedKeysIsSummedUp(t *testing.T) {
	inWorld(t, func(w *world) {
		const keys = 3000
		w.table.insertMany(keys, func(i int) Key { return Key{fmt.Sprint("t", i%8), fmt.Sprint("secret", i)} })
		r := w.relay(Config{})
		r.publisher.fail = func(*Event) error { return failure(ClassEvent) }
		r.start()
		w.until("all parked", func() bool { return len(w.table.parkedKeys()) == keys })
		r.wantStopped()
		lines, sums := r.log.count("key parked: "), r.log.count("more keys parked")
		if lines != burstLines || sums != 1 || r.log.count(fmt.Sprintf("events=%d ", keys-burstLines)) != 1 || r.log.count("codes=\"TEST: 2990\"") != 1 {
			t.Errorf("%d lines and %d that sum up, want %d and 1, of %d events\n%s", lines, sums, burstLines, keys-burstLines, r.log.text.String())
		}
		if n := r.log.count("outbox keys list shows them"); n != 1 {
			t.Errorf("%d lines say what shows parked keys, want 1", n)
		}
		if n := r.log.count("secret"); n != 0 {
			t.Errorf("%d keys are in the log", n)
		}
	})
}

// A burst ends by itself: nobody waits for the relay's end to hear of it, and what fails later has lines of its own again.
func TestTheEndOfABurstIsSaidWhileTheRelayWorks(t *testing.T) {
	inWorld(t, func(w *world) {
		fail := func(n int) {
			w.table.insertMany(n, func(int) Key { return Key{"orders", fmt.Sprint(len(w.table.rows))} })
		}
		r := w.relay(Config{Policies: []Policy{{OnFailure: Skip}}})
		r.publisher.fail = func(*Event) error { return failure(ClassEvent) }
		fail(burstLines + 2)
		r.start()
		w.until("all dead", func() bool { return len(w.table.deadEvents()) == burstLines+2 })
		after(burstTime + time.Second)
		if n := r.log.count("more events given up"); n != 1 || r.log.count("events=2 ") != 1 {
			t.Errorf("%d lines that sum up, want 1, of 2 events", n)
		}
		if n := r.log.count("outbox events list --state dead shows them"); n != 1 || r.log.count("keys list") != 0 {
			t.Errorf("%d lines say what shows dead events, want 1, and none that keys list does", n)
		}
		fail(1)
		w.untilPublished()
		if n := r.log.count("event given up: "); n != burstLines+1 {
			t.Errorf("%d lines of single events, want %d", n, burstLines+1)
		}
		after(time.Minute)
		r.wantStopped()
		if n := r.log.count("more events given up"); n != 1 {
			t.Errorf("%d lines that sum up, want 1: the last event has a line of its own", n)
		}
	})
}

func TestManyNamesAreCountedTogether(t *testing.T) {
	t.Parallel()
	var c counted
	for i := range 40 {
		c.add(fmt.Sprint("t", i%8))
	}
	if got, want := c.String(), "t0: 5, t1: 5, t2: 5, t3: 5, t4: 5, others: 15"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
