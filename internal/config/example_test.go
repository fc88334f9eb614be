package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTheExampleFileLoadsAndShowsEverySettingWithItsDefault(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../docs/outbox.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := mustLoad(t, given{file: string(content)})
	if len(c.Sources) != 3 || c.Sources[2].Brokers[0] != "analytics-kafka:9092" || c.Sources[0].Brokers[1] != "kafka-2:9092" {
		t.Errorf("got %+v", c)
	}
	for _, s := range Settings() {
		if s.Scope == Run {
			continue
		}
		line := regexp.MustCompile(`(?m)^ *(# )?` + s.Key + `(-file)?: +(\S+)`).FindStringSubmatch(string(content))
		switch {
		case line == nil:
			t.Errorf("%s is not shown", s.Key)
		case line[1] != "" && s.Default != "" && line[3] != s.Default:
			t.Errorf("%s: its default is %s, the example says %s", s.Key, s.Default, line[3])
		}
	}
	// What is commented out can be put in.
	for line := range strings.Lines(string(content)) {
		if setting, ok := strings.CutPrefix(line, "# "); ok && regexp.MustCompile(`^[a-z-]+: `).MatchString(setting) {
			_, err := load(t, given{file: setting, env: Environment{"KAFKA_BROKERS": "h:1"}})
			if err != nil && !strings.Contains(err.Error(), "sasl") {
				t.Errorf("%s: %v", setting, err)
			}
		}
	}
}
