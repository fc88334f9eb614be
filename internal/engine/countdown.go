package engine

import (
	"sync"
	"time"
)

// Silencer is what can be made silent: a publisher.
type Silencer interface {
	// SilentFrom sets from when on nothing is sent any more, by the publisher's own clock; the zero time takes that back.
	SilentFrom(t time.Time)
	// Destroy ends the client at once.
	Destroy()
}

// Countdown silences a relay whose lease is not renewed in time:
//
//	counting ── extended by every good renewal ──▶ counting
//	   │ not extended until TTL − (produce timeout + overhead + margin), see [Silence]
//	   ▼
//	expired: the Kafka client is destroyed before another relay may work
//
// The time is counted from SENDING the last good renewal, by this process's monotonic clock: the database counted its TTL from a later moment. The publisher knows the
// deadline too, and keeps it when the whole process stands still until then.
type Countdown struct {
	silence  time.Duration
	now      func() time.Time
	silencer Silencer
	// silenced is closed when the client is destroyed.
	silenced chan struct{}

	mu       sync.Mutex
	deadline time.Time
	timer    *time.Timer
	expired  bool
	stopped  bool
}

// NewCountdown starts a countdown of silence, whose renewal was sent at sent.
func NewCountdown(silence time.Duration, now func() time.Time, sent time.Time, s Silencer) *Countdown {
	c := &Countdown{silence: silence, now: now, silencer: s, silenced: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = sent.Add(silence)
	s.SilentFrom(c.deadline)
	c.timer = time.AfterFunc(c.deadline.Sub(now()), c.Expire)
	return c
}

// Extend begins the countdown anew from sent; false when it has expired meanwhile.
func (c *Countdown) Extend(sent time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expired || c.stopped {
		return false
	}
	c.deadline = sent.Add(c.silence)
	c.silencer.SilentFrom(c.deadline)
	c.timer.Reset(c.deadline.Sub(c.now()))
	return true
}

// Expire silences the relay, once, and returns when it is silent. The timer calls it on a goroutine of its own, so that no slow statement can delay it. After Stop it
// does nothing: the client may be another term's by then.
func (c *Countdown) Expire() {
	c.mu.Lock()
	first := !c.expired && !c.stopped
	c.expired = c.expired || first
	expired := c.expired
	c.mu.Unlock()
	switch {
	case first:
		// Not under the mutex: a client may take its time to end, and whoever asks for the state must not wait for that.
		c.silencer.Destroy()
		close(c.silenced)
	case expired:
		<-c.silenced
	}
}

// Expired tells that the relay was silenced, or is being silenced now.
func (c *Countdown) Expired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expired
}

// Remaining is how long the relay may still talk to the brokers; never less than zero.
func (c *Countdown) Remaining() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(0, c.deadline.Sub(c.now()))
}

// Silence is how long the countdown takes.
func (c *Countdown) Silence() time.Duration { return c.silence }

// Sent is when the last good renewal was sent.
func (c *Countdown) Sent() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deadline.Add(-c.silence)
}

// Stop ends the countdown. It returns after a silencing that has begun.
func (c *Countdown) Stop() {
	c.mu.Lock()
	c.stopped = true
	c.timer.Stop()
	expired := c.expired
	c.mu.Unlock()
	if expired {
		<-c.silenced
	}
	c.silencer.SilentFrom(time.Time{})
}
