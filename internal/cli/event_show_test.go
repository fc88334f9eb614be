package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/operate"
)

func TestAnEventTellsEachErrorOnce(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		first, last, why string
		want             map[string]int
		attempts         string
	}{
		"it stops its key": {
			"TOO_LARGE: of at most 1000", "TOO_LARGE: of at most 1000", "it stops its key (TOO_LARGE: of at most 1000)",
			map[string]int{"of at most 1000": 1, "first error": 0, "last error": 0}, "3, the first at 2026-01-01 12:00:00Z, the last at 2026-01-01 12:01:00Z",
		},
		"another error before": {
			"INVALID: by a broker", "TOO_LARGE: of at most 1000", "it stops its key (TOO_LARGE: of at most 1000)",
			map[string]int{"of at most 1000": 1, "first error": 1, "by a broker": 1, "last error": 0}, "3, the first at",
		},
		"no reason tells it": {
			"INVALID: by a broker", "INVALID: by a broker", "nothing keeps it", map[string]int{"by a broker": 1, "first error": 0, "last error": 1}, "3, the first at",
		},
	} {
		var out bytes.Buffer
		d := operate.EventDetail{
			Why:      []operate.Reason{{Text: c.why}},
			Failures: &operate.Failures{Attempts: 3, FirstError: c.first, LastError: c.last, FirstAt: noon, LastAt: noon.Add(time.Minute)},
		}
		if err := (&app{stdout: &out}).printEvent(d, false); err != nil {
			t.Fatal(err)
		}
		for text, n := range c.want {
			if got := strings.Count(out.String(), text); got != n {
				t.Errorf("%s: %q stands there %d times, want %d: %s", name, text, got, n, &out)
			}
		}
		if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, "attempts "+c.attempts) {
			t.Errorf("%s: the attempts are missing: %s", name, got)
		}
	}
}

func TestASentenceIsNotQuotedForTheNamesInIt(t *testing.T) {
	t.Parallel()
	sentence := "unpark key \"order-5\" of topic shop.order: \x1b[31m taken back\n"
	for _, s := range []shown{{}, {true}} {
		if got, want := s.sentence(sentence), `unpark key "order-5" of topic shop.order: \u001b[31m taken back\n`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
