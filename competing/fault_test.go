package competing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/competing"
	"github.com/outbox-relay/outbox/relay"
)

// silence keeps the cluster from handling requests of a kind until the function that it returns is called; each that has arrived is counted.
func (w *world) silence(kind kmsg.Key) (arrived func() int, heal func()) {
	requests := make(chan struct{}, 1000)
	healed := make(chan struct{})
	w.cluster.ControlKey(kind.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		select {
		case <-healed:
			return nil, nil, false
		default:
		}
		w.cluster.KeepControl()
		requests <- struct{}{}
		return nil, errors.New("no answer"), true
	})
	closed := false
	heal = func() {
		if !closed {
			closed = true
			close(healed)
		}
	}
	w.t.Cleanup(heal)
	return func() int { return len(requests) }, heal
}

// free is how many unpublished rows nobody has locked.
func (w *world) free() int {
	return w.count(`SELECT count(*) FROM (SELECT 1 FROM outbox_event WHERE published_at IS NULL FOR UPDATE SKIP LOCKED) e`)
}

func TestRowsAreLockedUntilTheyAreMarked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arrived, heal := w.silence(kmsg.Produce)
	w.fill(80)
	w.start(w.relay(competing.Config{BatchSize: 50}))
	w.eventually("Kafka is asked", func() bool { return arrived() > 0 })
	if n := w.free(); n != 30 {
		t.Errorf("%d rows can be taken by others, want the 30 outside the batch", n)
	}
	heal()
	w.eventually("everything is published", func() bool { return w.unpublished() == 0 })
	w.wantOnce(w.times(topic))
}

func TestAnOutageLetsTheRowsGoInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arrived, heal := w.silence(kmsg.Produce)
	w.fill(10)
	// Long enough for an answer when there is one: what is given up and has arrived comes again.
	r := w.relay(competing.Config{PublishTimeout: 5 * time.Second})
	w.start(r)
	w.eventually("Kafka is asked", func() bool { return arrived() > 0 })
	w.eventually("the rows are let go", func() bool { return r.Stats().LastError != nil && w.free() == 10 })
	heal()
	w.eventually("everything is published", func() bool { return w.unpublished() == 0 })
	w.wantOnce(w.times(topic))
}

func TestAStopDuringAnOutageEndsInTimeAndSaysWhatItLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arrived, _ := w.silence(kmsg.Produce)
	w.fill(10)
	r := w.relay(competing.Config{DrainTimeout: 50 * time.Millisecond, LeaseTTL: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	w.eventually("Kafka is asked", func() bool { return arrived() > 0 })
	cancel()
	var left *relay.DrainError
	if err := <-ended; !errors.As(err, &left) || left.Outstanding != 10 {
		t.Errorf("Run = %v, want 10 events left with Kafka", err)
	}
	// They may still arrive, so nobody may lease a lane yet.
	if n := w.count(`SELECT count(*) FROM outbox.relay WHERE mode = 'competing' AND expires_at > clock_timestamp()`); n != 1 {
		t.Errorf("%d registrations, want the relay's to run out by itself", n)
	}
}

func TestABrokenConnectionIsMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(w.relay(competing.Config{BatchSize: 10}))
	for range 5 {
		w.fill(100)
		w.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'outbox-relay'`)
	}
	w.eventually("everything is published", func() bool { return w.unpublished() == 0 })
	for id, n := range w.times(topic) {
		// Each break repeats at most the batch that was in flight.
		if n > 6 {
			t.Errorf("event %s is %d times in Kafka", id, n)
		}
	}
}
