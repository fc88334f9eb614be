package engine

import (
	"strings"
	"testing"
	"time"
)

func TestALeaseIsAsLongAsItsPublisherNeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ttl, maxDelay time.Duration
		ok            bool
	}{
		{15 * time.Second, 5 * time.Second, true},
		{15 * time.Second, 7 * time.Second, false},
		{4 * time.Second, 0, false},
		{5 * time.Second, time.Second, true},
		{time.Hour, 20 * time.Minute, true},
		{time.Hour + 1, 0, false},
	} {
		err := CheckLeaseTTL(c.ttl, c.maxDelay)
		if (err == nil) != c.ok || err != nil && !strings.HasPrefix(err.Error(), "LeaseTTL is ") {
			t.Errorf("TTL %s, a produce of %s: %v; want it accepted: %v", c.ttl, c.maxDelay, err, c.ok)
		}
	}
}

func TestSilenceLeavesTimeForAProduceAndAMargin(t *testing.T) {
	t.Parallel()
	if got := Silence(15*time.Second, 5*time.Second); got != 9*time.Second {
		t.Errorf("silence after %s, want 9s", got)
	}
}

func TestALongTextIsShortened(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"orders":                      "orders",
		strings.Repeat("x", 300):      strings.Repeat("x", 100) + "…",
		strings.Repeat("ж", 300):      strings.Repeat("ж", 50) + "…",
		"x" + strings.Repeat("ж", 60): "x" + strings.Repeat("ж", 49) + "…",
	} {
		if got := Short(in); got != want {
			t.Errorf("Short(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNumbersMakeNoNewReason(t *testing.T) {
	t.Parallel()
	one, other := "leases lanes (for 1h0m0s unless it renews them)", "leases lanes (for 59m59.9s unless it renews them)"
	if withoutNumbers(one) != withoutNumbers(other) {
		t.Errorf("%q and %q differ", withoutNumbers(one), withoutNumbers(other))
	}
	if withoutNumbers("wrong password") == withoutNumbers("nobody listens") {
		t.Error("two reasons are one")
	}
}

func TestTimesAreRounded(t *testing.T) {
	t.Parallel()
	for in, want := range map[time.Duration]string{123456789: "123ms", 9*time.Second + 123456789: "9.1s"} {
		if got := Rounded(in).String(); got != want {
			t.Errorf("Rounded(%d) = %s, want %s", in, got, want)
		}
	}
}
