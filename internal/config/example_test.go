package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTheFilesInTheDocsAreWhatTheCommandsPrint(t *testing.T) {
	t.Parallel()
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	for name, made := range map[string]string{"outbox.example.yaml": Example(), SchemaFile: string(schema)} {
		content, err := os.ReadFile("../../docs/" + name)
		if err != nil || string(content) != made {
			t.Errorf("docs/%s is not what is made of the settings (%v): go run ./cmd/outbox config example > docs/outbox.example.yaml; go run ./cmd/outbox config schema > docs/%s", name, err, SchemaFile)
		}
	}
}

// commentedOut is a setting that the example file does not make.
var commentedOut = regexp.MustCompile(`^#([a-z-]+): (.+)$`)

func TestTheExampleFileLoadsAndShowsEverySettingWithItsDefault(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, given{file: Example()})
	if len(c.Sources) != 3 || c.Sources[2].Brokers[0] != "analytics-kafka:9092" || c.Sources[0].Brokers[1] != "kafka-2:9092" {
		t.Errorf("got %+v", c)
	}
	shown := map[string]string{"brokers": ""}
	for line := range strings.Lines(Example()) {
		line = strings.TrimSpace(line)
		m := commentedOut.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if _, again := shown[m[1]]; !again {
			shown[m[1]] = m[2]
		}
		// What is commented out can be put in.
		file := newFile()
		root, err := parseYAML(strings.TrimPrefix(line, "#"))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		file.readTop(t.Context(), root)
		for _, problem := range file.problems {
			if !strings.Contains(problem.Error(), "open /run/secrets/") {
				t.Errorf("%s: %v", line, problem)
			}
		}
	}
	for _, s := range Settings() {
		key := s.Key
		if s.Secret {
			key += fileSuffix
		}
		value, there := shown[key]
		switch {
		case s.Scope == Run:
		case !there:
			t.Errorf("%s is not shown", key)
		case s.Kind == Text && value == `""`:
			t.Errorf("%s: it has no default, and needs an Example", key)
		case s.Example == "" && s.Default != "" && value != s.Default && value != "["+s.Default+"]":
			t.Errorf("%s: its default is %s, the example says %s", s.Key, s.Default, value)
		}
	}
}

func newFile() *file { return &file{name: "x", top: newLayer()} }

func TestACommandForTheDatabaseLooksAtNothingElse(t *testing.T) {
	t.Parallel()
	path := write(t, "outbox.yaml", "sasl-mechanism: SCRAM-SHA-512\nsources:\n- name: a\n  database-url: postgres://h/a\n- name: b\n  table: x.y\n  database-password: hunter2\n")
	env := Environment{"OUTBOX_CONFIG": path, "DATABASE_URL": "postgres://h/all", "OUTBOX_POLL_INTERVAL": "soon", "OUTBOX_SOURCE_A__TABLE": "t"}
	a, err := Database(t.Context(), nil, env, "a")
	if err != nil || a.DatabaseURL != "postgres://h/a" || a.Table != "t" || a.Named("table") != "OUTBOX_SOURCE_A__TABLE" {
		t.Errorf("got %+v, %v", a, err)
	}
	b, err := Database(t.Context(), map[string]string{"database-url": "postgres://h/typed"}, env, "b")
	if err != nil || b.DatabaseURL != "postgres://h/typed" || b.Table != "x.y" || b.DatabasePassword != "hunter2" || !b.Typed("database-url") {
		t.Errorf("got %+v, %v", b, err)
	}
	for name, want := range map[string]string{"": "outbox.yaml has the sources a, b: name one with --source", "c": "outbox.yaml has no source c, but a, b"} {
		if _, err := Database(t.Context(), nil, env, name); err == nil || err.Error() != want {
			t.Errorf("source %q: got %v, want %s", name, err, want)
		}
	}
}
