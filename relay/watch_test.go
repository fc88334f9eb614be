package relay

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

func TestASourceThatWatchesIsAskedOnceAMinuteAndMayFail(t *testing.T) {
	inWorld(t, func(w *world) {
		var looks atomic.Int64
		r := w.relay(Config{})
		r.source.before.set(func(_ context.Context, op string) error {
			if op != "watch" {
				return nil
			}
			looks.Add(1)
			return errBroken
		})
		r.start()
		after(5*time.Minute + 30*time.Second)
		if n := looks.Load(); n != 5 {
			t.Errorf("asked %d times in five and a half minutes, want 5", n)
		}
		if opened, _, _ := r.publisher.counts(); opened != 1 || r.Stats().LastError != nil {
			t.Errorf("%d clients, last error %v; want 1: a look that fails is no failure of the relay", opened, r.Stats().LastError)
		}
		r.wantStopped()
	})
}
