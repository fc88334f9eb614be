package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// keeper keeps a claim alive and, when it cannot, silences the relay in time: before another relay may take the lanes. All lanes are renewed together, so they have one
// countdown; a lane that was gained since the last renewal has more time than that.
type keeper struct {
	*engine.Countdown
	leases Leases
	ttl    time.Duration
	now    func() time.Time

	mu sync.Mutex
	// claim changes when lanes are gained and given back.
	claim Claim
}

// newKeeper starts the countdown of a claim whose request was sent at sent.
func newKeeper(leases Leases, claim Claim, ttl, silence time.Duration, now func() time.Time, sent time.Time, publisher engine.Silencer) *keeper {
	return &keeper{Countdown: engine.NewCountdown(silence, now, sent, publisher), leases: leases, ttl: ttl, now: now, claim: claim}
}

// dueIn is how long it is until the next renewal; not more than zero when it is due.
func (k *keeper) dueIn() time.Duration {
	return k.ttl/3 - k.now().Sub(k.Sent())
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
	case k.Expired(), k.Remaining() == 0:
		k.Expire()
		return false, k.tooLate()
	case errors.Is(err, ErrLeaseLost):
		k.Expire()
		return false, fmt.Errorf("%s lease: %w", doing, err)
	case err != nil:
		return false, fmt.Errorf("%s lease: %w", doing, err)
	}
	if !k.Extend(sent) {
		return false, k.tooLate()
	}
	return true, nil
}

func (k *keeper) renew(ctx context.Context) error {
	_, err := k.prolong(ctx, "renew", func(ctx context.Context) error { return k.leases.Renew(ctx, k.current(), k.ttl) })
	return err
}

func (k *keeper) tooLate() error {
	return fmt.Errorf("renew lease: not renewed within %s: %w", engine.Rounded(k.Silence()), ErrLeaseLost)
}

// bounded calls f with no more time than is left.
func (k *keeper) bounded(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, k.Remaining())
	defer cancel()
	return f(ctx)
}
