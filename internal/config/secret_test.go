package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretsComeByVariableLineOrFile(t *testing.T) {
	t.Parallel()
	path := write(t, "password", "hunter2\r\n")
	base := "brokers: h:1\nsasl-mechanism: SCRAM-SHA-512\nsasl-username: me\n"
	for name, g := range map[string]given{
		"variable":                     {base, Environment{"KAFKA_SASL_PASSWORD": "hunter2"}, nil},
		"our variable":                 {base, Environment{"KAFKA_SASL_PASSWORD": "other", "OUTBOX_SASL_PASSWORD": "hunter2"}, nil},
		"variable of a file":           {base, Environment{"KAFKA_SASL_PASSWORD_FILE": path}, nil},
		"line":                         {base + "sasl-password: hunter2\n", nil, nil},
		"line of a file":               {base + "sasl-password-file: " + path + "\n", nil, nil},
		"entry":                        {base + "sources:\n- name: a\n  sasl-password-file: " + path + "\n", Environment{"KAFKA_SASL_PASSWORD": "other"}, nil},
		"variable of the source":       {base + "sources:\n- name: a\n  sasl-password: other\n", Environment{"OUTBOX_SOURCE_A__SASL_PASSWORD": "hunter2"}, nil},
		"file by variable of a source": {base + "sources:\n- name: a\n  sasl-password: other\n", Environment{"OUTBOX_SOURCE_A__SASL_PASSWORD_FILE": path}, nil},
	} {
		c := mustLoad(t, g)
		if got := string(c.Sources[0].SASLPassword); got != "hunter2" {
			t.Errorf("%s: got %q", name, got)
		}
		encoded, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, shown := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v", *c, c.Sources), string(encoded)} {
			if strings.Contains(shown, "hunter2") {
				t.Errorf("%s: the password is shown: %s", name, shown)
			}
		}
	}
}

func TestASecretThatCannotBeReadIsNamedAndNotShown(t *testing.T) {
	t.Parallel()
	empty := write(t, "empty", "\n")
	large := write(t, "large", strings.Repeat("x", maxSecretFile+1))
	for name, c := range map[string]struct {
		given
		want string
	}{
		"missing":    {given{env: Environment{"KAFKA_SASL_PASSWORD_FILE": "/nowhere"}}, "KAFKA_SASL_PASSWORD_FILE: open /nowhere: no such file"},
		"empty":      {given{file: "database-password-file: " + empty}, "outbox.yaml:1: database-password-file: " + empty + " is empty"},
		"large":      {given{file: "database-password-file: " + large}, "has more than 65536 bytes: that is no password"},
		"directory":  {given{file: "database-password-file: " + filepath.Dir(large)}, "is a directory: name the file in it"},
		"unnamed":    {given{file: "database-password-file: ''"}, "names no file"},
		"both":       {given{env: Environment{"KAFKA_SASL_PASSWORD_FILE": empty, "KAFKA_SASL_PASSWORD": "hunter2"}}, "KAFKA_SASL_PASSWORD and KAFKA_SASL_PASSWORD_FILE are both set: leave one out"},
		"no mapping": {given{file: "database-password: [hunter2]"}, "outbox.yaml:1: database-password: want a text"},
	} {
		_, err := load(t, c.given)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestASecretIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := Setting{Key: "x", Words: []string{"a"}, Secret: true}
	if err := newLayer().put(s, "hunter2", origin{name: "X"}); err == nil || err.Error() != "X is not shown: want a" {
		t.Errorf("got %v", err)
	}
}

func TestASecretHasNoDefault(t *testing.T) {
	t.Parallel()
	for _, s := range Settings() {
		if s.Secret && s.Default != "" {
			t.Errorf("%s: a secret with a default", s.Key)
		}
	}
}

func TestARotatedSecretIsReadAgain(t *testing.T) {
	t.Parallel()
	path := write(t, "password", "first\n")
	c := mustLoad(t, given{file: "brokers: h:1\ndatabase-password-file: " + path + "\nsasl-mechanism: SCRAM-SHA-512\nsasl-username: me\nsasl-password: fixed\n"})
	rotating := c.Sources[0].Rotating("database-password")
	replace := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when, want string) {
		t.Helper()
		if got := string(rotating()); got != want {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	want("at first", "first")
	replace("second\n")
	want("when it was replaced", "second")
	replace("")
	want("while it is being written", "second")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want("while it is away", "second")
	replace("third")
	want("when it is back", "third")
	if c.Sources[0].Rotating("sasl-password") != nil {
		t.Error("a password that stands in the file of settings itself does not change")
	}
}
