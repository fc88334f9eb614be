package kafka

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outbox-relay/outbox/relay"
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

func TestRejectedRecordsWithoutALineAreCountedWhenTheClientEnds(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1)
	poisonous(c, topic, 0, kerr.InvalidRecord)
	var log syncBuffer
	p := opened(t, Config{Brokers: c.ListenAddrs(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	o := newOutcomes(t)
	// One that is alone in its batch is rejected once; each time by the same code.
	for id := range 3 {
		p.Publish([]*relay.Event{poisoned(id, topic, "a")}, o.done)
		o.wait(id + 1)
	}
	if strings.Contains(log.String(), "kafka rejected more records") {
		t.Errorf("it is summed up before the end\n%s", log.String())
	}
	p.Destroy()
	p.Destroy()
	want := "kafka rejected more records since it was said last\" topic=" + topic + " code=INVALID_RECORD rejections=2 records=2"
	if strings.Count(log.String(), want) != 1 || strings.Count(log.String(), "kafka rejected more records") != 1 {
		t.Errorf("want one line that says %s\n%s", want, log.String())
	}
}

func TestOnlyRejectionsWithoutALineAreSummedUp(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	l := newRejectionLog(slog.New(slog.NewTextHandler(&log, nil)), newClock().now)
	l.say("said", 0, "INVALID_RECORD", "look", 2)
	l.close()
	if strings.Contains(log.String(), "more records") {
		t.Errorf("there is nothing more to say\n%s", log.String())
	}
}
