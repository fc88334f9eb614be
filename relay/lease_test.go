package relay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/internal/engine"
)

const (
	testTTL   = 15 * time.Second
	testDelay = 5 * time.Second
	// testSilence is TTL − (delay + TTL/15).
	testSilence = 9 * time.Second
)

// keeping is a keeper at work on a fresh claim.
type keeping struct {
	*keeper
	table *fakeTable
	// renewals are when renewals were sent, silenced when the client was destroyed, both counted from the claim.
	renewals, silenced []time.Duration
	ran                chan error
}

func keep(t *testing.T, before func(ctx context.Context, op string) error) *keeping {
	k := &keeping{table: newFakeTable(), ran: make(chan error, 1)}
	began := time.Now()
	source := &fakeSource{table: k.table}
	claim, err := source.Claim(t.Context(), Owner{ID: uuid.New()}, testTTL, Claim{})
	if err != nil {
		t.Fatal(err)
	}
	source.before.set(func(ctx context.Context, op string) error {
		if op != "renew" {
			return nil
		}
		k.renewals = append(k.renewals, time.Since(began))
		if before == nil {
			return nil
		}
		return before(ctx, op)
	})
	k.keeper = newKeeper(source, claim, testTTL, engine.Silence(testTTL, testDelay), time.Now, began, silences(func() {
		k.silenced = append(k.silenced, time.Since(began))
	}))
	t.Cleanup(k.Stop)
	term := &term{Relay: &Relay{source: source, owner: claim.Owner, cfg: Config{}.withDefaults()}, gate: newGate(1, 1, time.Now, len(claim.Lanes), claim.Lanes), keeper: k.keeper}
	term.info.Lanes = len(claim.Lanes)
	go func() { k.ran <- term.keep(t.Context()) }()
	return k
}

// silences is a publisher that tells when it is destroyed.
type silences func()

func (silences) SilentFrom(time.Time) {}
func (s silences) Destroy()           { s() }

// after waits in virtual time.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (k *keeping) wantSilenced(t *testing.T, want time.Duration) {
	t.Helper()
	if len(k.silenced) != 1 || k.silenced[0] != want {
		t.Errorf("silenced at %v, want once at %s", k.silenced, want)
	}
	if err := <-k.ran; !errors.Is(err, ErrLeaseLost) {
		t.Errorf("run: %v, want %v", err, ErrLeaseLost)
	}
}

func TestKeeperRenewsAtAThirdOfTheTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, nil)
		after(time.Minute + time.Second)
		if len(k.renewals) != 12 || k.renewals[0] != 5*time.Second || len(k.silenced) != 0 {
			t.Errorf("renewals at %v, silenced %v; want 12 from 5s on, never", k.renewals, k.silenced)
		}
	})
}

func TestKeeperSilencesInTimeWhenARenewalHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		after(testTTL)
		k.wantSilenced(t, testSilence)
	})
}

func TestKeeperSilencesInTimeWhenARenewalHangsAndIgnoresItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, func(context.Context, string) error { <-time.After(time.Hour); return nil })
		after(2 * time.Hour)
		k.wantSilenced(t, testSilence)
	})
}

func TestKeeperCountsFromSendingTheRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		k := keep(t, func(ctx context.Context, _ string) error {
			if calls++; calls == 1 { // sent at 5 s, answered at 8 s
				<-time.After(3 * time.Second)
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		after(time.Minute)
		k.wantSilenced(t, 5*time.Second+testSilence)
	})
}

func TestKeeperSilencesAtOnceWhenTheLeaseIsAnothers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, nil)
		k.table.steal(time.Now().Add(time.Hour))
		after(time.Minute)
		k.wantSilenced(t, 5*time.Second)
	})
}

func TestKeeperReportsABrokenConnectionAndKeepsTheCountdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, failing("renew", 1))
		if err := <-k.ran; !errors.Is(err, errBroken) || errors.Is(err, ErrLeaseLost) {
			t.Errorf("run: %v, want %v", err, errBroken)
		}
		after(time.Minute)
		if len(k.silenced) != 1 || k.silenced[0] != testSilence {
			t.Errorf("silenced at %v, want once at %s", k.silenced, testSilence)
		}
	})
}

func TestKeeperThatIsStoppedNeverSilencesTheNextTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, failing("renew", 1))
		<-k.ran
		k.Stop()
		k.Expire()
		after(time.Minute)
		if len(k.silenced) != 0 {
			t.Errorf("silenced at %v after stop", k.silenced)
		}
	})
}

func TestKeeperCountsByTheInjectedClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Unix(0, 0)
		silenced := false
		k := newKeeper(nil, Claim{}, testTTL, testSilence, func() time.Time { return began.Add(testSilence - time.Second) }, began, silences(func() { silenced = true }))
		defer k.Stop()
		if got := k.Remaining(); got != time.Second {
			t.Errorf("remaining %s, want 1s", got)
		}
		after(time.Second)
		if !silenced {
			t.Error("not silenced when the injected clock's time was over")
		}
	})
}
