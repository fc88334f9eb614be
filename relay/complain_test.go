package relay

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestAStartThatFailsSaysEachReasonOnceInAWhile(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{StartTimeout: -1})
		r.source.warnings = []string{"an index is missing"}
		var reason atomic.Value
		reason.Store(errors.New("nobody listens"))
		r.publisher.onOpen = func(context.Context) error { return reason.Load().(error) }
		r.start()
		after(20 * time.Second)
		if n := r.log.count("cannot start yet"); n != 1 {
			t.Errorf("said %d times in 20 s, want once", n)
		}
		after(20 * time.Second)
		if n := r.log.count("cannot start yet"); n != 2 {
			t.Errorf("said %d times in 40 s, want twice", n)
		}
		reason.Store(errors.New("wrong password"))
		after(10 * time.Second)
		if r.log.count("cannot start yet") != 3 || r.log.count("wrong password") != 1 {
			t.Error("a new reason is not said, or more than once")
		}
		if n := r.log.count("an index is missing"); n != 1 {
			t.Errorf("the source's warning is said %d times, want once", n)
		}
		if r.log.count("relay interrupted") > 0 {
			t.Error("a relay that has never worked is said to be interrupted")
		}
		r.wantStopped()
	})
}

func TestAnOutageSaysEachReasonOnceInAWhileAndTheNextOneAnew(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{}).start()
		refused := func(name string) {
			r.source.before.set(func(context.Context, string) error { return errors.New(name) })
		}
		for outage := range 2 {
			w.until("leading", func() bool { return r.Stats().Leading })
			before, lines := r.log.count("relay interrupted"), r.log.count("wrong password")
			refused("wrong password")
			after(20 * time.Second)
			// By what it was interrupted, what keeps it from beginning again, and the lease that it could not hand back.
			if n := r.log.count("relay interrupted"); n-before < 1 || n-before > 2 || r.log.count("wrong password")-lines > 3 {
				t.Errorf("outage %d: interrupted %d times:\n%s", outage+1, n, r.log.text.String())
			}
			r.source.before.set(nil)
			w.until("leading again", func() bool { return r.Stats().Leading })
		}
		r.wantStopped()
		if n := r.log.count("msg=stopped published=0"); n != 1 {
			t.Errorf("the stop is said %d times, want once", n)
		}
	})
}

func TestARelayThatWorksAgainSaysTheSameReasonAnew(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{}).start()
		for n := range 3 {
			w.until("leading", func() bool { return r.Stats().Leading })
			var torn atomic.Bool
			r.source.before.set(func(_ context.Context, called string) error {
				if called == "read" && !torn.Swap(true) {
					return errors.New("the connection is torn")
				}
				return nil
			})
			w.until("it is said", func() bool { return r.log.count("is torn") == n+1 })
		}
		r.wantStopped()
	})
}

func TestAStartThatFailsHasNothingToHandBack(t *testing.T) {
	for _, op := range []string{"open", "claim"} {
		t.Run(op, func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := w.relay(Config{StartTimeout: time.Second})
				r.source.before.set(func(_ context.Context, called string) error {
					if called == op || called == "leave" {
						return errors.New("it is not open")
					}
					return nil
				})
				if err := <-r.start().ran; err == nil {
					t.Error("the start has not failed")
				}
				if r.log.count("not handed back") > 0 {
					t.Errorf("%s", r.log.text.String())
				}
			})
		})
	}
}

func TestALeaseThatCannotBeHandedBackIsSaid(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{}).start()
		w.until("leading", func() bool { return r.Stats().Leading })
		r.source.before.set(func(_ context.Context, called string) error {
			if called == "leave" {
				return errors.New("the database is away")
			}
			return nil
		})
		_ = r.stop()
		if r.log.count("lease not handed back") != 1 {
			t.Errorf("%s", r.log.text.String())
		}
	})
}

func TestLanesAreWrittenAsRanges(t *testing.T) {
	t.Parallel()
	for want, lanes := range map[string][]int32{"": nil, "3": {3}, "0-7": {0, 1, 2, 3, 4, 5, 6, 7}, "0-1 3 5-7": {0, 1, 3, 5, 6, 7}} {
		if got := ranges(lanes); got != want {
			t.Errorf("%v: got %q, want %q", lanes, got, want)
		}
	}
}

func TestLanesTakenAreNamed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.lanes = make([]fakeLane, 8)
		r := w.relay(Config{}).start()
		w.until("leading", func() bool { return r.Stats().Leading })
		r.wantStopped()
		if want := "which=0-7 "; r.log.count(want) != 1 {
			t.Errorf("the log does not name the lanes %s: %s", want, r.log.text.String())
		}
	})
}
