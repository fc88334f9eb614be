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

func TestACommandForTheDatabaseLooksAtNothingElse(t *testing.T) {
	t.Parallel()
	path := write(t, "outbox.yaml", "sasl-mechanism: PLAIN\nsources:\n- name: a\n  database-url: postgres://h/a\n- name: b\n  table: x.y\n  database-password: hunter2\n")
	env := Environment{"OUTBOX_CONFIG": path, "DATABASE_URL": "postgres://h/all", "OUTBOX_POLL_INTERVAL": "soon", "OUTBOX_SOURCE_A__TABLE": "t"}
	a, err := Database(nil, env, "a")
	if err != nil || a.DatabaseURL != "postgres://h/a" || a.Table != "t" || a.Named("table") != "OUTBOX_SOURCE_A__TABLE" {
		t.Errorf("got %+v, %v", a, err)
	}
	b, err := Database(map[string]string{"database-url": "postgres://h/typed"}, env, "b")
	if err != nil || b.DatabaseURL != "postgres://h/typed" || b.Table != "x.y" || b.DatabasePassword != "hunter2" || !b.Typed("database-url") {
		t.Errorf("got %+v, %v", b, err)
	}
	for name, want := range map[string]string{"": "outbox.yaml has the sources a, b: name one with --source", "c": "outbox.yaml has no source c, but a, b"} {
		if _, err := Database(nil, env, name); err == nil || err.Error() != want {
			t.Errorf("source %q: got %v, want %s", name, err, want)
		}
	}
}
