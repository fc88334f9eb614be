package kafka

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestRejectedRecordsHaveALineOnlyNowAndThenAndAreCounted(t *testing.T) {
	t.Parallel()
	clock := newClock()
	var log syncBuffer
	l := newRejectionLog(slog.New(slog.NewTextHandler(&log, nil)), clock.now)
	for range 31 {
		l.say("a", 0, "INVALID_RECORD", "look", 2)
		clock.advance(time.Second)
	}
	l.say("a", 0, "MESSAGE_TOO_LARGE", "look", 1)
	l.say("b", 0, "INVALID_RECORD", "look", 1)
	if got := strings.Count(log.String(), "kafka rejected records"); got != 4 {
		t.Errorf("%d lines, want 4: two in 31 s, one of another code, one of another topic\n%s", got, log.String())
	}
	if !strings.Contains(log.String(), "rejections_unsaid=29 records_unsaid=58") {
		t.Errorf("the second line does not count what had none\n%s", log.String())
	}
}
