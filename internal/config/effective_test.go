package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestEffectiveSettingsSayWhereEachIsFrom(t *testing.T) {
	t.Parallel()
	password := write(t, "password", "hunter2")
	c := mustLoad(t, given{
		file: "brokers: [h:1, h:2]\nlisten: :9090\nsasl-mechanism: SCRAM-SHA-512\nsasl-username: me\nsasl-password-file: " + password +
			"\nsources:\n- name: a\n  settle: delete\n  retain: 7d\n  database-url: postgres://me:hunter2@h/d\n",
		env:  Environment{"OUTBOX_VERBOSE": "true", "KAFKA_CLIENT_ID": "me", "OUTBOX_SOURCE_A__DATABASE_PASSWORD": "hunter2"},
		args: []string{"--batch-size=7", "--once"},
	})
	if !c.Readable() {
		t.Error("it could be read")
	}
	got := map[string]string{}
	for _, e := range append(c.Effective(), c.Sources[0].Effective()...) {
		got[e.Setting] = fmt.Sprintf("%v %s %s %s", e.Value, e.From, e.Origin, e.Path)
	}
	for key, want := range map[string]string{
		"listen": ":9090 file outbox.yaml:2 ", "verbose": "true variable OUTBOX_VERBOSE ", "once": "true flag --once ", "relay-name": " default default ",
		"brokers": "[h:1 h:2] file outbox.yaml:1 ", "settle": "delete file outbox.yaml:8 ", "retain": "168h file outbox.yaml:9 ", "client-id": "me variable KAFKA_CLIENT_ID ",
		"batch-size": "7 flag --batch-size ", "poll-interval": "100ms default default ", "tls": "false default default ",
		"sasl-password":     "*** file outbox.yaml:5 " + password,
		"database-password": "*** variable OUTBOX_SOURCE_A__DATABASE_PASSWORD ",
		"database-url":      "postgres://me:***@h/d file outbox.yaml:10 ",
	} {
		if got[key] != want {
			t.Errorf("%s:\ngot  %s\nwant %s", key, got[key], want)
		}
	}
	if len(got) != len(Settings()) {
		t.Errorf("%d settings are told of, and there are %d", len(got), len(Settings()))
	}
	encoded, err := json.Marshal([]any{c.Effective(), c.Sources[0].Effective()})
	if err != nil || strings.Contains(string(encoded), "hunter2") {
		t.Errorf("%v: %s", err, encoded)
	}
}

func TestWhatCouldNotBeReadIsKnown(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bool{"settle: mark\n": true, "settle: burn\n": false, "setle: mark\n": false, "sources: []\n": false} {
		if c, err := load(t, given{file: file}); err == nil || c.Readable() != want {
			t.Errorf("%q: readable %v, %v; want %v and that there are no brokers", file, c.Readable(), err, want)
		}
	}
}
