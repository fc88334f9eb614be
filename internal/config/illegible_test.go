package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What people and their editors make of a file is read if it can only mean one thing, and else refused in one line, with its place.
func TestOddFilesAreReadOrRefusedInOneLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"byte order mark":                 {"\ufeffsettle: burn\n", `outbox.yaml:1: settle is "burn": want mark or delete`},
		"line ends of Windows":            {"brokers: h:1\r\nsettle: burn\r\n", `outbox.yaml:2: settle is "burn": want mark or delete`},
		"nothing in it":                   {" \n\n", "outbox.yaml: the file is empty: write settings into it, or name none"},
		"UTF-16":                          {"\xff\xfes\x00e\x00", "outbox.yaml:1: byte 0xff is no UTF-8: save the file as UTF-8"},
		"Latin-1":                         {"settle: mark\nrelay-name: M\xfcnchen\n", "outbox.yaml:2: byte 0xfc is no UTF-8: save the file as UTF-8"},
		"a tab in front":                  {"sources:\n- name: a\n\ttable: x\n", "outbox.yaml:3: found a tab; YAML is indented by blanks, never by tabs"},
		"a key twice":                     {"settle: mark\nsettle: delete\n", "outbox.yaml:2: settle is given twice, first on line 1"},
		"a source's key twice":            {"sources:\n- name: a\n  table: x\n  table: y\n", "outbox.yaml:4: table is given twice, first on line 3"},
		"a merge":                         {"sources:\n- name: a\n  <<: {table: x}\n", "outbox.yaml:3: << is not read: what stands at the top is for all sources"},
		"a duration without unit":         {"poll-interval: 100\n", `outbox.yaml:1: poll-interval is "100": want a duration such as 100ms, with its unit: ms, s, m or h`},
		"an age without unit":             {"retain: 7\n", `outbox.yaml:1: retain is "7": want a duration such as 168h or 7d, with its unit: ms, s, m or h`},
		"no for a word":                   {"settle: no\n", `outbox.yaml:1: settle is "no": want mark or delete`},
		"yes for true":                    {"tls: yes\n", `outbox.yaml:1: tls is "yes": want true or false`},
		"a number with underscores":       {"batch-size: 2_000\n", `outbox.yaml:1: batch-size is "2_000": want a whole number`},
		"a number with a unit":            {"max-in-flight-bytes: 32MiB\n", `outbox.yaml:1: max-in-flight-bytes is "32MiB": want a whole number`},
		"a number in a base":              {"batch-size: 0x7d0\n", `outbox.yaml:1: batch-size is "0x7d0": want a whole number`},
		"a text that YAML takes for nil":  {"client-id: ~\n", "outbox.yaml:1: client-id: want a text"},
		"a secret that is an alias":       {"sasl-password: *hunter2\n", "outbox.yaml: a value begins with *, which stands for an anchor that is not there: put a text that begins so in quotes"},
		"a secret that is a tag":          {"sasl-password: !hunter2\n", "outbox.yaml:1: sasl-password: the value begins with !, which YAML takes for a tag: put a text that begins so in quotes"},
		"a secret that is an anchor":      {"sasl-password: &hunter2\n", "outbox.yaml:1: sasl-password: want a text"},
		"a secret that begins with @":     {"sasl-password: @hunter2\n", "outbox.yaml:1: found character that cannot start any token; put a text that begins with @, % or ` in quotes"},
		"a secret without a blank before": {"{sasl-password:hunter2}\n", `outbox.yaml:1: unknown setting "sasl-password…": write a colon and a blank behind the name`},
		"a secret behind an equals sign":  {"{sasl-password=hunter2: x}\n", `outbox.yaml:1: unknown setting "sasl-password…": write a colon and a blank behind the name`},
		"a secret in quotes that go on":   {"sasl-password: \"hunter2\" x\n", "outbox.yaml:1: did not find expected key"},
		"a secret that is a list":         {"sasl-password: [hunter2]\n", "outbox.yaml:1: sasl-password: want a text"},
	} {
		_, err := load(t, given{file: c.file, env: Environment{"KAFKA_BROKERS": "h:1"}})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\ngot  %v\nwant %s", name, err, c.want)
		}
	}
}

func TestADirectoryInPlaceOfTheFileIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := load(t, given{args: []string{"--config=" + dir}, env: Environment{"KAFKA_BROKERS": "h:1"}})
	if err == nil || !strings.HasPrefix(err.Error(), "read settings: "+dir+" is a directory: name the file in it") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	if _, err := load(t, given{args: []string{"--config=" + filepath.Join(dir, "none.yaml")}, env: Environment{"KAFKA_BROKERS": "h:1"}}); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

// What YAML would make a boolean or a number of is a text where a text is wanted; an anchor is what it stands for.
func TestTextsAreTakenAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, given{file: "\ufeffbrokers: [h:1]\r\nsasl-mechanism: SCRAM-SHA-512\r\nsasl-username: no\r\nsasl-password: 0123_4\r\nclient-id: &me 007\r\nrelay-name: *me\r\nretain: 0\r\nstall-timeout: &t 20s\r\nlease-ttl: *t\r\n"})
	s := c.Sources[0]
	if s.SASLUsername != "no" || s.SASLPassword != "0123_4" || s.ClientID != "007" || c.RelayName != "007" || s.Retain != 0 || s.LeaseTTL != 20*time.Second {
		t.Errorf("got %+v", c)
	}
}
