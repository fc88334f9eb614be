//go:build integration && unix

package consumer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/kafka"
)

// A handler is at work, longer than a drain waits and without a look at its context, while another member comes and takes its partition. Whichever transaction is first
// counts, the other's writes are not there, and the late one does not move the offset of the new owner.
func TestAHandlerThatIsLateMovesNothingOfTheNextOwner(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, nextGen func(*kafka.ConsumerConfig)) {
		m := newMailroom(t)
		late := make(chan struct{})
		begun := make(chan struct{}, 3)
		// The first delivery to each partition is late; the later ones are not.
		var slow [3]atomic.Bool
		m.first = func(_ context.Context, e inbox.Event[paid]) error {
			if slow[e.Record.Partition].CompareAndSwap(false, true) {
				begun <- struct{}{}
				<-late
			}
			return nil
		}
		impatient := func(cfg *kafka.ConsumerConfig) { cfg.Run.DrainTimeout = 200 * time.Millisecond }
		for partition := range int32(3) {
			m.into(partition, int(partition)*100, int(partition)*100+100)
		}
		_, stop := m.consume(nextGen, impatient)
		for range 3 {
			<-begun
		}
		other, _ := m.consume(nextGen, impatient)
		// The late event waits for what becomes of its transaction, and so do the others of its key. It is one of the first eight, as many as there are workers.
		await.Until(t, "another member has handled all else of a partition", func() bool { s := other.Stats(); return s.Handled+s.Repeats >= 100-10-7 })
		close(late)
		await.Until(t, "all is handled", func() bool { return m.count(effects) == 300 })
		await.Until(t, "all is committed", func() bool { return m.committedOffsets() == 300 })
		stop()
		if now := m.committedOffsets(); now != 300 {
			t.Errorf("the group goes on at %d in all, want 300", now)
		}
		// Each partition has a hundred events of the same ten accounts: a key is in one of them.
		wrong := m.count(`SELECT count(*) FROM (SELECT seq, lag(seq) OVER (PARTITION BY account, seq / 100 ORDER BY n) AS before FROM effect) e WHERE seq <= before`)
		if events := m.count(`SELECT count(DISTINCT event_id) FROM effect`); wrong != 0 || events != 300 {
			t.Errorf("%d effects are out of their key's order; %d events have one", wrong, events)
		}
	})
}
