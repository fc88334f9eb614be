package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestWhatWasMadeAndIsWrongIsNotMissingAsWell(t *testing.T) {
	t.Parallel()
	secure := func(more Environment) Environment {
		env := Environment{"KAFKA_BROKERS": "h:1", "DATABASE_URL": "postgres://h/d", "KAFKA_TLS_ENABLED": "true", "KAFKA_SASL_USERNAME": "relay", "KAFKA_SASL_MECHANISM": "PLAIN", "KAFKA_SASL_PASSWORD": "p"}
		for name, value := range more {
			env[name] = value
		}
		return env
	}
	for name, c := range map[string]struct {
		given
		want, never string
	}{
		"a file with a tab":              {given{file: "brokers: h:1\nsources:\n\t- name: a\n"}, "found a tab", "no brokers"},
		"a file that is no YAML":         {given{file: "brokers: [h:1\n"}, "outbox.yaml", "no brokers"},
		"brokers without a port":         {given{file: "brokers: kafka\n"}, "brokers", "no brokers"},
		"a list in a list":               {given{file: "brokers: [[h:1]]\n"}, "brokers: want", "no brokers"},
		"a mistyped mechanism":           {given{env: secure(Environment{"KAFKA_SASL_MECHANISM": "SCRAM-265"})}, "KAFKA_SASL_MECHANISM is", "no mechanism"},
		"two passwords":                  {given{env: secure(Environment{"KAFKA_SASL_PASSWORD_FILE": "/p"})}, "are both set", "no password"},
		"a password file not here":       {given{env: secure(Environment{"KAFKA_SASL_PASSWORD": "", "KAFKA_SASL_PASSWORD_FILE": "/not/here"})}, "/not/here", "no password"},
		"a bad token endpoint":           {given{env: secure(Environment{"KAFKA_SASL_MECHANISM": "OAUTHBEARER", "KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": "nowhere"})}, "KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL is", "no token endpoint"},
		"a group":                        {given{file: "kafka:\n  brokers: h:1\n"}, `unknown setting "kafka": settings stand in no groups: write brokers without it`, "no brokers"},
		"sources in a group":             {given{file: "relay:\n  sources:\n  - name: a\n    brokers: h:1\n"}, `unknown setting "relay"`, "no brokers"},
		"a mistyped list":                {given{file: "source:\n- name: a\n  brokers: h:1\n", env: Environment{"OUTBOX_SOURCE_A__TABLE": "t"}}, "did you mean sources?", "no brokers"},
		"a mistyped list, its variables": {given{file: "source:\n- name: a\n  brokers: h:1\n", env: Environment{"OUTBOX_SOURCE_A__TABLE": "t"}}, "did you mean sources?", "no such source"},
		"a file with a tab, its sources": {given{file: "brokers: h:1\nsources:\n\t- name: a\n", env: Environment{"OUTBOX_SOURCE_A__TABLE": "t"}}, "found a tab", "no such source"},
		"a source without a good name":   {given{file: "brokers: h:1\nsources:\n- name: A\n", env: Environment{"OUTBOX_SOURCE_A__SASL_OAUTH_CLIENT_SECRET_FILE": "/f"}}, "name is", "OUTBOX_SOURCE"},
		"a mistyped key":                 {given{file: "broker: h:1\n"}, "did you mean brokers?", "no brokers"},
		"a key of a source":              {given{file: "sources:\n- name: a\n  broker: h:1\n"}, "did you mean brokers?", "no brokers"},
		"a key with its value":           {given{file: "{brokers=h:1: x}\n"}, `"brokers…"`, "no brokers"},
		"a variable of a source":         {given{file: "sources:\n- name: a\n", env: Environment{"OUTBOX_SOURCE_A__BROKER": "h:1"}}, "did you mean OUTBOX_SOURCE_A__BROKERS?", "no brokers"},
		"a mistyped password file":       {given{file: "brokers: h:1\nsasl-mechanism: SCRAM-SHA-512\nsasl-username: me\nsasl-passwordfile: /p\n"}, "did you mean sasl-password-file?", "no password"},
		"thousands of keys":              {given{file: manyKeys()}, "and more settings that are unknown", "no brokers"},
		"authorities that are PEM":       {given{env: secure(Environment{"KAFKA_TLS_ENABLED": "", "KAFKA_SSL_CA": "-----BEGIN CERTIFICATE-----"})}, "KAFKA_SSL_CA is", "in the clear"},
		"leave that is neither":          {given{file: "sasl-without-tls: perhaps\n", env: secure(Environment{"KAFKA_TLS_ENABLED": ""})}, "sasl-without-tls is", "in the clear"},
		"TLS that is neither":            {given{env: secure(Environment{"KAFKA_TLS_ENABLED": "perhaps"})}, "KAFKA_TLS_ENABLED is", "in the clear"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, c.given)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.never) {
				t.Errorf("want %q and never %q: %v", c.want, c.never, err)
			}
		})
	}
}

// manyKeys is a file of something else.
func manyKeys() string {
	var b strings.Builder
	for i := range 2 * mostUnknown {
		fmt.Fprintf(&b, "translation_%d: x\n", i)
	}
	return b.String()
}
