//go:build integration

package kafka_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outbox-relay/outbox/internal/await"
)

// examined are the codes of what the doctor finds, and whether it ends well.
func (f *fixture) examined(t *testing.T, args ...string) (codes []string, mends map[string]string, ready bool) {
	t.Helper()
	stdout, stderr, code := f.outbox(t, append([]string{"doctor", "--json"}, args...)...)
	var report struct {
		Ready    bool
		Findings []struct{ Code, Mend string }
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || report.Ready != (code == 0) {
		t.Fatalf("ended with %d, %v:\n%s%s", code, err, stdout, stderr)
	}
	mends = map[string]string{}
	for _, found := range report.Findings {
		codes, mends[found.Code] = append(codes, found.Code), found.Mend
	}
	return codes, mends, report.Ready
}

// What is wrong with a topic of a real broker is found, and is not found any more when it is mended.
func TestTheDoctorFindsWhatIsWrongWithTheTopicsOfABroker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := name("doctor")
	f.insert(t, topic, "k", fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("x", 6000)))
	if codes, mends, ready := f.examined(t); ready || !slices.Contains(codes, "topic-missing") || !strings.Contains(mends["topic-missing"], "--create --topic "+topic) {
		t.Fatalf("without the topic: %q", codes)
	}
	f.topic(t, topic, 1, "max.message.bytes", "5000", "unclean.leader.election.enable", "true", "cleanup.policy", "compact", "retention.ms", "1000")
	args := []string{"--on-failure", "dead-letter topic=" + topic}
	wrong := []string{"topic-limit-small", "topic-unclean-election", "topic-compacted", "letters-kept-briefly"}
	codes, mends, ready := f.examined(t, args...)
	for _, code := range wrong {
		if ready || !slices.Contains(codes, code) {
			t.Errorf("%s is not among %q", code, codes)
		}
		_, setting, _ := strings.Cut(mends[code], "--add-config ")
		name, value, printed := strings.Cut(setting, "=")
		if code == "topic-compacted" {
			if printed {
				t.Errorf("a command takes records from a topic that may be compacted on purpose: %s", mends[code])
			}
			name, value = "cleanup.policy", "delete"
		}
		if _, err := f.admin(t).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic); err != nil {
			t.Errorf("%s: %v", mends[code], err)
		}
	}
	await.Until(t, "the topic is mended", func() bool {
		codes, _, ready := f.examined(t, args...)
		return ready && !slices.ContainsFunc(codes, func(code string) bool { return slices.Contains(wrong, code) })
	})
}

func TestTheDoctorFindsATopicThatTheUserMayNotWriteTo(t *testing.T) {
	t.Parallel()
	f := newAuthorizingFixture(t)
	topic := f.topic(t, name("doctor"), 1)
	f.insert(t, topic, "k", `{}`)
	f.forbid(t, topic)
	if codes, mends, ready := f.examined(t); ready || !slices.Contains(codes, "topic-forbidden") || !strings.Contains(mends["topic-forbidden"], "--operation Write") {
		t.Errorf("forbidden: %q", codes)
	}
	f.allow(t, topic)
	if codes, _, ready := f.examined(t); !ready {
		t.Errorf("allowed: %q", codes)
	}
}
