package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// keeper keeps a claim alive and, when it cannot, silences the relay in time. All lanes are renewed together, so they have one deadline; a lane that was
// gained since the last renewal has more time than that.
//
//	claimed ── renewed every TTL/3 ──▶ claimed
//	   │ not renewed until TTL − (produce timeout + overhead + margin)
//	   ▼
//	silenced: the Kafka client is destroyed before another relay may take the lanes
//
// The time is counted from SENDING the last good renewal, by this process's monotonic clock: the database counted its TTL from a later moment.
type keeper struct {
	leases  Leases
	ttl     time.Duration
	silence time.Duration
	now     func() time.Time
	// publisher is silent from the deadline on by its own clock, and is destroyed by the timer.
	publisher silencer

	mu sync.Mutex
	// claim changes when lanes are gained and given back.
	claim Claim
	// deadline is when the relay must be silent.
	deadline time.Time
	timer    *time.Timer
	lost     bool
	stopped  bool
}

// silencer is what the keeper needs of a [Publisher].
type silencer interface {
	SilentFrom(t time.Time)
	Destroy()
}

// newKeeper starts the countdown of a claim whose request was sent at sent.
func newKeeper(leases Leases, claim Claim, ttl, silence time.Duration, now func() time.Time, sent time.Time, publisher silencer) *keeper {
	k := &keeper{leases: leases, claim: claim, ttl: ttl, silence: silence, now: now, publisher: publisher}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deadline = sent.Add(silence)
	k.publisher.SilentFrom(k.deadline)
	k.timer = time.AfterFunc(k.deadline.Sub(now()), k.expire)
	return k
}

// extend begins the countdown anew from sent; false when the lease was given up meanwhile.
func (k *keeper) extend(sent time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost {
		return false
	}
	k.deadline = sent.Add(k.silence)
	k.publisher.SilentFrom(k.deadline)
	k.timer.Reset(k.deadline.Sub(k.now()))
	return true
}

// expire silences the relay, once. It runs on the timer's own goroutine, so that no slow statement can delay it, and never after stop: the client may
// be another term's by then.
func (k *keeper) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost || k.stopped {
		return
	}
	k.lost = true
	k.publisher.Destroy()
}

// expired tells that the relay was silenced, or is being silenced now.
func (k *keeper) expired() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost
}

// remaining is how long the relay may still talk to the brokers.
func (k *keeper) remaining() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(0, k.deadline.Sub(k.now()))
}

// stop ends the countdown. It returns after a silencing that has begun.
func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.timer.Stop()
	k.publisher.SilentFrom(time.Time{})
}

// dueIn is how long it is until the next renewal; not more than zero when it is due.
func (k *keeper) dueIn() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ttl/3 - k.now().Sub(k.deadline.Add(-k.silence))
}

// current is the claim as it is now.
func (k *keeper) current() Claim {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.claim
}

func (k *keeper) adopt(c Claim) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.claim = c
}

// prolong calls f, which renews or claims, while there is time, and counts from now when it succeeds. Otherwise it returns ErrLeaseLost, or why nobody
// can know: a changed server, a broken connection. Without an error but with false, ctx has ended: what the call met does not matter any more.
func (k *keeper) prolong(ctx context.Context, doing string, f func(context.Context) error) (bool, error) {
	sent := k.now()
	err := k.bounded(ctx, f)
	switch {
	case ctx.Err() != nil:
		return false, nil //nolint:nilerr // see above
	case k.expired(), k.remaining() == 0:
		k.expire()
		return false, k.tooLate()
	case errors.Is(err, ErrLeaseLost):
		k.expire()
		return false, fmt.Errorf("%s lease: %w", doing, err)
	case err != nil:
		return false, fmt.Errorf("%s lease: %w", doing, err)
	}
	if !k.extend(sent) {
		return false, k.tooLate()
	}
	return true, nil
}

func (k *keeper) renew(ctx context.Context) error {
	_, err := k.prolong(ctx, "renew", func(ctx context.Context) error { return k.leases.Renew(ctx, k.current(), k.ttl) })
	return err
}

func (k *keeper) tooLate() error {
	return fmt.Errorf("renew lease: not renewed within %s: %w", engine.Rounded(k.silence), ErrLeaseLost)
}

// bounded calls f with no more time than is left.
func (k *keeper) bounded(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, k.remaining())
	defer cancel()
	return f(ctx)
}
