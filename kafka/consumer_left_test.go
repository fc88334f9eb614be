package kafka

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
)

func TestARetryTopicThatIsNoLongerReadIsNamedWhileItHoldsRecords(t *testing.T) {
	t.Parallel()
	const gone, empty, read, foreign = orders + "-retry-60000", orders + "-retry-120000", orders + "-retry-50", orders + ".eu-retry-60000"
	brokers := fake(t, kfake.SeedTopics(2, orders, gone, empty, read, foreign, orders+"-dlt")).ListenAddrs()
	for _, topic := range []string{gone, read, foreign} {
		produce(t, brokers, topic, 0, 5, 3)
	}
	said := &await.Journal{}
	d := &desk{}
	cfg := ConsumerConfig{
		Config: Config{Brokers: brokers, Logger: slog.New(slog.NewTextHandler(said, nil))}, Topics: []string{orders},
		Run: inbox.RunnerConfig{Retry: inbox.Retry{Topics: []time.Duration{50 * time.Millisecond}, GiveUp: inbox.DeadLetter}},
	}
	_, stop := consume(t, d, cfg)
	eventually(t, "the retry topic that is read to be handled", func() bool { return d.handled() == 5 })
	stop()
	var named []string
	for line := range strings.Lines(said.Text()) {
		if strings.Contains(line, "does not read") {
			named = append(named, line)
		}
	}
	if len(named) != 1 || !strings.Contains(named[0], "topic="+gone+" records=5") {
		t.Errorf("it says %q, want 5 records in %s", named, gone)
	}

	// With the delay back they are handled, and without it once more nothing is left.
	cfg.Run.Retry.Topics = []time.Duration{50 * time.Millisecond, time.Minute}
	_, stop = consume(t, d, cfg)
	eventually(t, "what was left to be handled", func() bool { return d.handled() == 10 && committed(t, brokers, "desk") == 10 })
	stop()
	cfg.Run.Retry.Topics = []time.Duration{50 * time.Millisecond}
	said = &await.Journal{}
	cfg.Logger = slog.New(slog.NewTextHandler(said, nil))
	_, stop = consume(t, d, cfg)
	eventually(t, "the consumer to start", func() bool { return said.Says("consumer starts") })
	stop()
	if said.Says("does not read") {
		t.Errorf("it says %s", said.Text())
	}
}
