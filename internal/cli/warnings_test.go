package cli

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestAWarningOfASourceIsSaidOncePerProcess(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := newWarnOnce(slog.New(slog.NewTextHandler(&out, nil)))
	for range 3 {
		log.With("relay", "r").Warn("source", "table", "t", "warning", "no index")
		log.Warn("source", "table", "t", "warning", "no right")
		log.Warn("cannot start yet", "error", "no index")
	}
	for text, want := range map[string]int{`warning="no index"`: 1, `warning="no right"`: 1, "cannot start yet": 3} {
		if got := strings.Count(out.String(), text); got != want {
			t.Errorf("%s is said %d times, want %d: %s", text, got, want, &out)
		}
	}
}
