package postgres

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox/relay"
)

// wantSweep sweeps once, with what was handed on as what is known, and compares the number of finds.
func (b *bench) wantSweep(want int) {
	b.Helper()
	known := func(ref relay.Ref) bool { return b.handed[ref] }
	found, err := b.reader.Sweep(b.Context(), time.Minute, known, holding{})
	if err != nil || found != want {
		b.Fatalf("sweep = %d, %v; want %d; %s", found, err, want, b)
	}
}

// forget makes the reader take an id for one that it has dealt with.
func (b *bench) forget(id int64) {
	b.exec("UPDATE outbox_event SET published_at = now() WHERE id = $1", id)
	b.wantDrained()
	b.exec("UPDATE outbox_event SET published_at = NULL WHERE id = $1", id)
}

func TestSweepFindsAForgottenRow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	b.insert("a")
	b.forget(1)
	b.wantDrained()
	b.wantSweep(1)
	b.wantDrained(1)
	b.wantSweep(0)
}

func TestSweepLeavesToTheReaderWhatIsStillToCome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	early, late := b.begin(), b.begin()
	early.insert("early")
	b.start()
	b.wantRead()
	late.insert("late")
	b.insert("c")
	b.wantRead(3)
	early.commit()
	late.commit()
	b.insert("ahead")
	b.wantSweep(0)
	b.wantDrained(1, 2, 4)
}

func TestSweepLeavesHeldRows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	b.insert("parked")
	b.insert("topic")
	b.exec("UPDATE outbox_event SET topic = 'held.topic' WHERE id = 2")
	b.exec("UPDATE outbox_event SET published_at = now()")
	b.wantDrained()
	b.exec("UPDATE outbox_event SET published_at = NULL")
	none := func(relay.Ref) bool { return false }
	h := holding{keys: map[relay.Key]bool{key("parked"): true}, topics: []string{"held.topic"}}
	if found, err := b.Sweep(t.Context(), time.Minute, none, h); found != 0 || err != nil {
		t.Fatalf("sweep = %d, %v; want no find", found, err)
	}
	h.topics = nil
	if found, err := b.Sweep(t.Context(), time.Minute, none, h); found != 1 || err != nil {
		t.Fatalf("sweep = %d, %v; want one find", found, err)
	}
}

func TestSweepDoesNothingDuringAWalk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(10)
	b.start()
	b.readLimit(3)
	b.handed = map[relay.Ref]bool{}
	b.wantSweep(0)
}

// The settler commits after the first statement has seen the row, and the gate forgets it.
func TestSweepBesideASettlerMakesNoFalseFind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.fill(100)
	b.wantDrained(upTo(1, 100)...)
	settled := false
	known := func(ref relay.Ref) bool {
		if !settled {
			b.settleAll()
			settled = true
		}
		return false
	}
	if found, err := b.Sweep(t.Context(), time.Minute, known, nil); found != 0 || err != nil {
		t.Fatalf("sweep = %d, %v; want no find", found, err)
	}
}

// The sweep stops when its budget is spent, and goes on there.
func TestSweepGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.fill(2*sweepPage + 10)
	b.drain(5000)
	clock := time.Unix(0, 0)
	b.reader.now = func() time.Time { clock = clock.Add(time.Second); return clock }
	seen := 0
	known := func(ref relay.Ref) bool { seen++; return b.handed[ref] }
	for _, want := range []int{sweepPage, sweepPage, 10, sweepPage} {
		seen = 0
		if found, err := b.Sweep(t.Context(), time.Millisecond, known, nil); found != 0 || err != nil {
			t.Fatalf("sweep = %d, %v; want no find", found, err)
		}
		if seen != want {
			t.Fatalf("the sweep looked at %d rows, want %d", seen, want)
		}
	}
}
