package relay

import (
	"strings"
	"testing"
	"time"
)

func TestNewNamesEverySettingThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := New(&fakeSource{}, &fakePublisher{maxDelay: time.Second}, Config{
		PollInterval: -1, BatchSize: -1, MaxInFlight: -1, MaxInFlightBytes: -1, LeaseTTL: -1, DrainTimeout: -1,
		TopicCheckInterval: -1, LookInterval: -1, StallTimeout: -1,
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{"PollInterval", "BatchSize", "MaxInFlight ", "MaxInFlightBytes", "LeaseTTL", "DrainTimeout", "TopicCheckInterval", "LookInterval", "StallTimeout"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
}

func TestNewComparesTheLeaseWithTheProduceTimeout(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ttl, maxDelay time.Duration
		ok            bool
	}{
		{0, 5 * time.Second, true},
		{8 * time.Second, 8 * time.Second / 3, true},
		{5 * time.Second, time.Second, true},
		{5*time.Second - 1, time.Second, false},
		{time.Hour, time.Second, true},
		{time.Hour + 1, time.Second, false},
		{1<<63 - 1, time.Second, false},
		{15 * time.Second, 7 * time.Second, false},
	} {
		if _, err := New(&fakeSource{}, &fakePublisher{maxDelay: tt.maxDelay}, Config{LeaseTTL: tt.ttl}); (err == nil) != tt.ok {
			t.Errorf("LeaseTTL %s with a produce that takes %s: %v; want accepted %v", tt.ttl, tt.maxDelay, err, tt.ok)
		}
	}
}
