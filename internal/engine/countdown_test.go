package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// slowEnd is a publisher that takes a while to be destroyed.
type slowEnd struct {
	destroyed int
	ends      chan struct{}
}

func (*slowEnd) SilentFrom(time.Time) {}

func (s *slowEnd) Destroy() {
	<-s.ends
	s.destroyed++
}

func TestWhoAsksForTheStateDoesNotWaitForAClientThatEndsSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowEnd{ends: make(chan struct{})}
		c := NewCountdown(time.Second, time.Now, time.Now(), s)
		<-time.After(time.Second)
		synctest.Wait()
		if !c.Expired() || c.Remaining() != 0 || c.Extend(time.Now()) {
			t.Error("while the client ends, the countdown has not expired")
		}
		stopped := make(chan struct{})
		go func() {
			c.Expire()
			c.Stop()
			close(stopped)
		}()
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("it has stopped, and the client may still send")
		default:
		}
		close(s.ends)
		<-stopped
		if s.destroyed != 1 {
			t.Errorf("destroyed %d times, want once", s.destroyed)
		}
	})
}
