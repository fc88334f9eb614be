package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// given is what a test tells the loader.
type given struct {
	file string
	env  Environment
	args []string
}

// load puts the file into the variable OUTBOX_CONFIG and reads everything.
func load(t *testing.T, g given) (*Config, error) {
	t.Helper()
	env := Environment{}
	for name, value := range g.env {
		env[name] = value
	}
	if g.file != "" {
		env["OUTBOX_CONFIG"] = write(t, "outbox.yaml", g.file)
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Flags(fs)
	if err := fs.Parse(g.args); err != nil {
		t.Fatal(err)
	}
	return Load(t.Context(), fs, env)
}

func write(t *testing.T, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustLoad(t *testing.T, g given) *Config {
	t.Helper()
	c, err := load(t, g)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWithoutAFileThereIsOneSourceWithoutAName(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, given{env: Environment{"KAFKA_BROKERS": "a:1, b:2", "DATABASE_URL": "postgres://h/d"}, args: []string{"--listen", ":9"}})
	want := Source{
		DatabaseURL: "postgres://h/d", Table: "public.outbox_event", Settle: "mark", Mode: "leased",
		Brokers: []string{"a:1", "b:2"}, ClientID: "outbox-relay", Compression: "none", TopicPartitions: 12,
		PollInterval: 100 * time.Millisecond, BatchSize: 2000, MaxInFlight: 20_000, MaxInFlightBytes: 32 << 20,
		LeaseTTL: 15 * time.Second, DrainTimeout: 10 * time.Second, SweepInterval: 30 * time.Second, StartTimeout: 30 * time.Second,
		OnFailure: []string{"park"}, ParkScope: "key", StallTimeout: 15 * time.Second,
	}
	got := c.Sources[0]
	got.origins, got.entry, got.refused = nil, "", nil
	if len(c.Sources) != 1 || !reflect.DeepEqual(got, want) || c.Listen != ":9" || c.File != "" {
		t.Errorf("got  %+v in %+v\nwant %+v", got, c, want)
	}
}

func TestWhoWins(t *testing.T) {
	t.Parallel()
	const both = "poll-interval: 2s\nsources:\n- name: a-b\n  poll-interval: 4s\n- name: c\n"
	brokers := Environment{"KAFKA_BROKERS": "h:1"}
	with := func(more ...string) Environment {
		env := Environment{}
		for name, value := range brokers {
			env[name] = value
		}
		for i := 0; i < len(more); i += 2 {
			env[more[i]] = more[i+1]
		}
		return env
	}
	for name, c := range map[string]struct {
		given
		want []time.Duration
	}{
		"default":                    {given{"", brokers, nil}, []time.Duration{100 * time.Millisecond}},
		"top of the file":            {given{"poll-interval: 2s", brokers, nil}, []time.Duration{2 * time.Second}},
		"variable over the top":      {given{"poll-interval: 2s", with("OUTBOX_POLL_INTERVAL", "3s"), nil}, []time.Duration{3 * time.Second}},
		"flag over the variable":     {given{"poll-interval: 2s", with("OUTBOX_POLL_INTERVAL", "3s"), []string{"--poll-interval=6s"}}, []time.Duration{6 * time.Second}},
		"entry over the top":         {given{both, brokers, nil}, []time.Duration{4 * time.Second, 2 * time.Second}},
		"entry over the variable":    {given{both, with("OUTBOX_POLL_INTERVAL", "3s"), nil}, []time.Duration{4 * time.Second, 3 * time.Second}},
		"variable of the source":     {given{both, with("OUTBOX_POLL_INTERVAL", "3s", "OUTBOX_SOURCE_A_B__POLL_INTERVAL", "5s"), nil}, []time.Duration{5 * time.Second, 3 * time.Second}},
		"flag over everything":       {given{both, with("OUTBOX_SOURCE_A_B__POLL_INTERVAL", "5s"), []string{"--poll-interval=6s"}}, []time.Duration{6 * time.Second, 6 * time.Second}},
		"a flag with its default":    {given{both, brokers, []string{"--poll-interval=100ms"}}, []time.Duration{100 * time.Millisecond, 100 * time.Millisecond}},
		"an empty variable is unset": {given{both, with("OUTBOX_SOURCE_A_B__POLL_INTERVAL", ""), nil}, []time.Duration{4 * time.Second, 2 * time.Second}},
	} {
		loaded, err := load(t, c.given)
		var got []time.Duration
		for _, s := range loaded.Sources {
			got = append(got, s.PollInterval)
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, %v; want %v", name, got, err, c.want)
		}
	}
}

func TestListsAreReplacedAndWrittenInBothForms(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, given{file: "brokers: [top:1, top:2]\nsources:\n- name: a\n  brokers: 'x:1,y:2'\n- name: b\n  brokers:\n  - z:1\n- name: c\n"})
	var got [][]string
	for _, s := range c.Sources {
		got = append(got, s.Brokers)
	}
	if want := [][]string{{"x:1", "y:2"}, {"z:1"}, {"top:1", "top:2"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestEverythingThatIsWrongIsSaidAtOnceWithItsPlace(t *testing.T) {
	t.Parallel()
	_, err := load(t, given{
		file: `listen: :9090
pol-interval: 1s
brokers: h:1
settle: burn
settle: mark
once: true
batch-size:
sources:
- name: orders
  listen: :1
  lease-ttl: 15
  tls: maybe
  max-in-flight: {a: b}
  sasl-password: hunter2
  sasl-password-file: /nowhere
- table: x
- name: Orders Of Today
- name: orders
- just text
- name: billing
  sasl-mechanism: SCRAM-SHA-512
  sources: []
`,
		env:  Environment{"OUTBOX_SOURCE_BILING__TABLE": "x", "OUTBOX_SOURCE_ORDERS__BATCH_SIZE": "many", "OUTBOX_START_TIMEOUT": "0s", "OUTBOX_SOURCE_X_SERVICE_HOST": "1.2.3.4"},
		args: []string{"--table=t", "--sweep-interval=-1s"},
	})
	want := `--sweep-interval is "-1s": want more than 0s
OUTBOX_START_TIMEOUT is "0s": want more than 0s
outbox.yaml:2: unknown setting "pol-interval": did you mean poll-interval?
outbox.yaml:4: settle is "burn": want mark or delete
outbox.yaml:5: settle is given twice, first on line 4
outbox.yaml:6: once is not for a file: give --once or OUTBOX_ONCE
outbox.yaml:7: batch-size: want a whole number
outbox.yaml:10: listen is of the whole process: write it at the top, not in a source
outbox.yaml:11: lease-ttl is "15": want a duration such as 100ms, with its unit: ms, s, m or h
outbox.yaml:12: tls is "maybe": want true or false
outbox.yaml:13: max-in-flight: want a whole number
outbox.yaml:15: sasl-password-file: sasl-password and sasl-password-file are both given: leave one out
outbox.yaml:16: the source has no name: give it one, such as name: orders
outbox.yaml:17: name is "Orders Of Today": want letters a to z, digits and single dashes between them, at most 40
outbox.yaml:18: name orders is taken by the source on line 9
outbox.yaml:19: sources: want settings of a source, beginning with - name:
outbox.yaml:22: sources does not belong here: the top has sources, and each of them a name
OUTBOX_SOURCE_ORDERS__BATCH_SIZE is "many": want a whole number
environment variable OUTBOX_SOURCE_BILING__TABLE: did you mean OUTBOX_SOURCE_BILLING__TABLE?
outbox.yaml:20: source billing: outbox.yaml:21: sasl-mechanism is set and no user: set sasl-username in the file, or OUTBOX_SOURCE_BILLING__SASL_USERNAME
outbox.yaml:20: source billing: outbox.yaml:21: sasl-mechanism is set and no password: set sasl-password-file in the file, or OUTBOX_SOURCE_BILLING__SASL_PASSWORD_FILE
--table says which source it is, and there are 5: say it in the file`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestAFileThatIsNoYAMLIsOneClearLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"sources:\n\t- name: a\n":             "outbox.yaml:2: found a tab; YAML is indented by blanks, never by tabs",
		"settle: mark\n  table: x\n":          "outbox.yaml:2: mapping values are not allowed in this context",
		"- a\n":                               "outbox.yaml:1: want settings, such as poll-interval: 100ms, or a list of sources",
		"settle: mark\n---\nsettle: mark\n":   "outbox.yaml: the file holds a second document, begun by ---: write one",
		"sources: []\n":                       "outbox.yaml:1: sources: want a list, each source beginning with - name:",
		"sources:\n  a:\n    table: x\n":      "outbox.yaml:1: sources: want a list, each source beginning with - name:",
		"settle: *unknown\n":                  "outbox.yaml: a value begins with *, which stands for an anchor that is not there: put a text that begins so in quotes",
		"poll-interval: [1s, 2s]\n":           "outbox.yaml:1: poll-interval: want a duration such as 100ms",
		"brokers: [[a]]\n":                    "outbox.yaml:1: brokers: want names with commas between them",
		"settle: " + strings.Repeat("x", 500): `outbox.yaml:1: settle is "` + strings.Repeat("x", 100) + `…": want mark or delete`,
	} {
		_, err := load(t, given{file: text, env: Environment{"KAFKA_BROKERS": "h:1"}})
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestAFileOfCommentsSaysNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"# nothing\n", "---\n", "null\n"} {
		c := mustLoad(t, given{file: text, env: Environment{"KAFKA_BROKERS": "h:1"}})
		if len(c.Sources) != 1 || c.Sources[0].Name != "" || c.Sources[0].BatchSize != 2000 {
			t.Errorf("%q: got %+v", text, c)
		}
	}
}

func TestAMissingFileIsSaid(t *testing.T) {
	t.Parallel()
	_, err := load(t, given{args: []string{"--config=/nowhere/outbox.yaml"}, env: Environment{"KAFKA_BROKERS": "h:1"}})
	if err == nil || !strings.Contains(err.Error(), "open /nowhere/outbox.yaml: no such file or directory") {
		t.Errorf("got %v", err)
	}
}

func TestASettingKnowsWhereItWasMade(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, given{
		file: "brokers: h:1\nsources:\n- name: a\n  settle: mark\n",
		env:  Environment{"OUTBOX_TABLE": "x", "OUTBOX_SOURCE_A__CLIENT_ID": "me", "OUTBOX_LISTEN": ":9"},
		args: []string{"--batch-size=7"},
	})
	s := c.Sources[0]
	for key, want := range map[string]string{
		"brokers": "outbox.yaml:1: brokers", "settle": "outbox.yaml:4: settle", "table": "OUTBOX_TABLE",
		"client-id": "OUTBOX_SOURCE_A__CLIENT_ID", "batch-size": "--batch-size", "compression": "outbox.yaml:3: compression",
	} {
		if got := s.Named(key); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
	if got, want := c.Named("listen"), "OUTBOX_LISTEN"; got != want {
		t.Errorf("listen: got %s, want %s", got, want)
	}
	if !s.Typed("batch-size") || s.Typed("table") {
		t.Error("only the flag was typed")
	}
}
