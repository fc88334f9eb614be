package competing

import (
	"strings"
	"testing"
	"time"
)

func TestEveryWrongSettingIsNamed(t *testing.T) {
	t.Parallel()
	c := Config{PollInterval: -1, BatchSize: -1, BatchBytes: -1, LeaseTTL: time.Second, PublishTimeout: 2 * time.Minute, DrainTimeout: -1, RetryInterval: -1,
		TopicCheckInterval: -1, StallTimeout: -1}
	err := c.withDefaults().validate(0)
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{"PollInterval", "BatchSize", "BatchBytes", "LeaseTTL", "PublishTimeout", "DrainTimeout", "RetryInterval", "TopicCheckInterval", "StallTimeout"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	if err := (Config{}).withDefaults().validate(5 * time.Second); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	if err := (Config{}).withDefaults().validate(10 * time.Second); err == nil || !strings.Contains(err.Error(), "LeaseTTL") {
		t.Errorf("a produce of 10s within a lease of 15s: %v, want it refused", err)
	}
}
