package cli

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox/operate"
)

func TestWhatHasFailedStandsFirstAndItsCodeOnce(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 5, 4, 38, 0, time.UTC)
	for want, e := range map[string]operate.Event{
		"MESSAGE_TOO_LARGE: 9000 bytes":                                  {State: operate.StateParked, Code: "MESSAGE_TOO_LARGE", Error: "9000 bytes"},
		"INVALID_RECORD: no; again at 2026-11-30 05:04:38Z":              {State: operate.StateWaiting, Error: "INVALID_RECORD: no", NextAttemptAt: at},
		"SKIPPED: by hand; sent to dead.order":                           {State: operate.StateDead, Code: "SKIPPED", Error: "by hand", LetterTopic: "dead.order"},
		"INVALID_RECORD: no":                                             {State: operate.StateDead, Code: "INVALID_RECORD", Error: "INVALID_RECORD: no"},
		"CRASH_LOOP":                                                     {State: operate.StateParked, Code: "CRASH_LOOP"},
		"UNKNOWN_TOPIC_OR_PARTITION: create it (topic held since a day)": {State: operate.StatePending, Kept: &operate.Reason{Text: "UNKNOWN_TOPIC_OR_PARTITION: create it (topic held since a day)"}},
		"-": {State: operate.StatePending},
	} {
		if got := briefly(e, shown{}); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
}
