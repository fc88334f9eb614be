package relay

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// keeper keeps a claim alive and, when it cannot, silences the relay in time.
//
//	claimed ── renewed every TTL/3 ──▶ claimed
//	   │ not renewed until TTL − (produce timeout + overhead + margin)
//	   ▼
//	silenced: the Kafka client is destroyed before another relay may take the lanes
//
// The time is counted from SENDING the last good renewal, by this process's monotonic clock: the database counted its TTL from a later moment.
type keeper struct {
	leases  Leases
	claim   Claim
	ttl     time.Duration
	silence time.Duration
	now     func() time.Time
	destroy func()

	lost  atomic.Bool
	timer *time.Timer
	// deadline is when the relay must be silent.
	deadline atomic.Pointer[time.Time]
}

// newKeeper starts the countdown of a claim whose request was sent at sent.
func newKeeper(leases Leases, claim Claim, ttl, silence time.Duration, now func() time.Time, sent time.Time, destroy func()) *keeper {
	k := &keeper{leases: leases, claim: claim, ttl: ttl, silence: silence, now: now, destroy: destroy}
	k.timer = time.AfterFunc(time.Hour, k.expire)
	k.extend(sent)
	return k
}

func (k *keeper) extend(sent time.Time) {
	d := sent.Add(k.silence)
	k.deadline.Store(&d)
	k.timer.Reset(d.Sub(k.now()))
}

// expire runs on the timer's own goroutine, so that no slow statement can delay it.
func (k *keeper) expire() {
	k.lost.Store(true)
	k.destroy()
}

// remaining is how long the relay may still talk to the brokers.
func (k *keeper) remaining() time.Duration { return max(0, k.deadline.Load().Sub(k.now())) }

func (k *keeper) stop() { k.timer.Stop() }

// run renews until ctx ends. It returns ErrLeaseLost, or why it cannot know: a changed server, a broken connection.
func (k *keeper) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(k.ttl / 3):
		}
		sent := k.now()
		err := k.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case k.lost.Load():
			return fmt.Errorf("renew lease: not renewed within %s: %w", k.silence, ErrLeaseLost)
		case errors.Is(err, ErrLeaseLost):
			k.stop()
			k.expire()
			return fmt.Errorf("renew lease: %w", err)
		case err != nil:
			return fmt.Errorf("renew lease: %w", err)
		}
		k.extend(sent)
	}
}

func (k *keeper) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.remaining())
	defer cancel()
	return k.leases.Renew(ctx, k.claim, k.ttl)
}
