package config

import (
	"testing"
	"time"
)

func TestAnAgeMayBeInDays(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for text, want := range map[string]time.Duration{
		"7d": 168 * hour, "1d": 24 * hour, "1.5d": 36 * hour, "1d12h": 36 * hour, "0d": 0, "168h": 168 * hour, "15m": 15 * time.Minute, "0": 0, "-5h": -5 * hour,
	} {
		if got, err := ParseAge(text); err != nil || got != want {
			t.Errorf("%q = %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "7", "d", "-7d", "7days", "7d-1h", "7d 1h", "1h7d", "99999999999d", "1d2000000h", "9999999999999999999999d", "1w"} {
		if got, err := ParseAge(text); err == nil {
			t.Errorf("%q = %s, want it refused", text, got)
		}
	}
}
