package kafka

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestAQuotaThatHoldsUpThePublisherIsSaidAndCounted(t *testing.T) {
	t.Parallel()
	c := fake(t)
	const wait = 20 * time.Millisecond
	c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ThrottleMillis, resp.ProducerID = int32(wait.Milliseconds()), 7
		return resp, nil, true
	})
	log := &guarded{}
	p := opened(t, Config{Brokers: c.ListenAddrs(), Logger: slog.New(slog.NewTextHandler(log, nil))})
	if got := p.Throttled(); got <= 0 || got > wait {
		t.Errorf("throttled for %s, want %s", got, wait)
	}
	if text := log.String(); strings.Count(text, "a quota is exceeded") != 1 || !strings.Contains(text, "again_in=20ms") {
		t.Errorf("the log says %s", text)
	}
}

func TestThrottlingIsSaidWhenItBeginsAndCountedOnceForAllBrokers(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := time.Unix(1000, 0)
	h := &throttling{log: slog.New(slog.NewTextHandler(&log, nil)), now: func() time.Time { return now }}
	for _, step := range []struct {
		later, wait, total time.Duration
		lines              int
	}{
		{0, 2 * time.Second, 2 * time.Second, 1},
		{0, time.Second, 2 * time.Second, 1},                // another broker, within the same time
		{time.Second, 2 * time.Second, 3 * time.Second, 1},  // it goes on
		{time.Minute, time.Second, 4 * time.Second, 1},      // not a minute after its end
		{2 * time.Minute, time.Second, 5 * time.Second, 2},  // a new one
		{30 * time.Second, time.Second, 6 * time.Second, 2}, // of the same
	} {
		now = now.Add(step.later)
		h.OnBrokerThrottle(kgo.BrokerMetadata{Host: "kafka-1"}, step.wait, true)
		if got, lines := h.sum(), strings.Count(log.String(), "\n"); got != step.total || lines != step.lines {
			t.Errorf("after %+v: %s in %d lines", step, got, lines)
		}
	}
}
