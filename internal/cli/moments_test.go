package cli

import (
	"testing"
	"time"
)

func TestATimeMayBeADayOrAnAge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 23, 30, 0, 0, time.FixedZone("", -2*3600))
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for text, want := range map[string]time.Time{
		"": {}, "today": at("2026-03-02T00:00:00Z"), "Yesterday": at("2026-03-01T00:00:00Z"), "2h": at("2026-03-01T23:30:00Z"), "1d2h": at("2026-02-28T23:30:00Z"),
		"2026-01-31": at("2026-01-31T00:00:00Z"), "2026-01-31 14:00": at("2026-01-31T14:00:00Z"), "2026-01-31T14:00:00+02:00": at("2026-01-31T12:00:00Z"),
	} {
		if got, err := moments(text, now); err != nil || !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"2026-02-30", "-2h", "2", "tomorrow", "2026", "14:00"} {
		if got, err := moments(text, now); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}
