package competing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox/relay"
)

// registrar answers renewals by a function.
type registrar struct {
	renew func(context.Context) error
}

func (r registrar) Register(context.Context, relay.Owner, time.Duration) error { return nil }
func (r registrar) Renew(ctx context.Context, _ relay.Owner, _ time.Duration) error {
	return r.renew(ctx)
}
func (r registrar) Report(context.Context, relay.Owner, time.Duration) error { return nil }
func (r registrar) Withdraw(context.Context, relay.Owner) error              { return nil }

// silenced is a publisher that notes when it is silenced.
type silenced struct {
	since time.Time
	// limit is the last that was set, by that clock; after is when it was destroyed.
	limit, after time.Duration
}

func (s *silenced) SilentFrom(t time.Time) {
	if s.limit = 0; !t.IsZero() {
		s.limit = t.Sub(s.since)
	}
}

func (s *silenced) Destroy() { s.after = time.Since(s.since) }

// outcome is when the relay was silenced and when its renewals ended, since it registered, and with what.
type outcome struct {
	silenced, ended time.Duration
	// limit is from when on the publisher may send nothing, whatever becomes of this process.
	limit time.Duration
	err   error
}

// keep registers for 15 s, of which 9 may be used, and runs until the renewals end.
func keep(t *testing.T, renew func(context.Context) error) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := &silenced{since: began}
		g := &registration{
			source: registrar{renew}, ttl: 15 * time.Second, silence: 9 * time.Second, now: time.Now, publisher: p,
			silent: func() time.Duration { return 0 },
		}
		if err := g.register(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.err = g.run(t.Context())
		o.silenced, o.ended, o.limit = p.after, time.Since(began), p.limit
		g.Stop()
		if p.limit != 0 {
			t.Errorf("after the registration the limit is still %s", p.limit)
		}
	})
	return o
}

func TestARelayIsSilentBeforeItsRegistrationEnds(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	if o := keep(t, hangs); o.silenced != 9*time.Second || o.limit != 9*time.Second || !errors.Is(o.err, relay.ErrLeaseLost) {
		t.Errorf("renewals that hang: %+v, want silence after 9s and ErrLeaseLost", o)
	}
	n := 0
	once := func(ctx context.Context) error {
		if n++; n == 1 {
			return nil
		}
		return hangs(ctx)
	}
	// The renewal that succeeded was sent after 5 s.
	if o := keep(t, once); o.silenced != 14*time.Second || o.limit != 14*time.Second {
		t.Errorf("the second renewal hangs: %+v, want silence after 14s", o)
	}
}

func TestALateAnswerDoesNotProlongASilencedRegistration(t *testing.T) {
	t.Parallel()
	late := func(context.Context) error { <-time.After(7 * time.Second); return nil }
	if o := keep(t, late); o.silenced != 9*time.Second || o.ended != 12*time.Second || !errors.Is(o.err, relay.ErrLeaseLost) {
		t.Errorf("got %+v, want silence after 9s and ErrLeaseLost when the answer comes", o)
	}
}

func TestALostRegistrationSilencesAtOnceAndABrokenConnectionDoesNot(t *testing.T) {
	t.Parallel()
	if o := keep(t, func(context.Context) error { return relay.ErrLeaseLost }); o.silenced != 5*time.Second {
		t.Errorf("lost: %+v, want silence with the first renewal", o)
	}
	broken := errors.New("broken")
	if o := keep(t, func(context.Context) error { return broken }); o.silenced != 0 || o.ended != 5*time.Second || !errors.Is(o.err, broken) {
		t.Errorf("broken: %+v, want the error at once and no silence: what is in flight may still be answered", o)
	}
}
