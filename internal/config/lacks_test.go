package config

import (
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
		"a file with a tab":        {given{file: "brokers: h:1\nsources:\n\t- name: a\n"}, "found a tab", "no brokers"},
		"a file that is no YAML":   {given{file: "brokers: [h:1\n"}, "outbox.yaml", "no brokers"},
		"brokers without a port":   {given{file: "brokers: kafka\n"}, "brokers", "no brokers"},
		"a list in a list":         {given{file: "brokers: [[h:1]]\n"}, "brokers: want", "no brokers"},
		"a mistyped mechanism":     {given{env: secure(Environment{"KAFKA_SASL_MECHANISM": "SCRAM-265"})}, "KAFKA_SASL_MECHANISM is", "no mechanism"},
		"two passwords":            {given{env: secure(Environment{"KAFKA_SASL_PASSWORD_FILE": "/p"})}, "are both set", "no password"},
		"a password file not here": {given{env: secure(Environment{"KAFKA_SASL_PASSWORD": "", "KAFKA_SASL_PASSWORD_FILE": "/not/here"})}, "/not/here", "no password"},
		"a bad token endpoint":     {given{env: secure(Environment{"KAFKA_SASL_MECHANISM": "OAUTHBEARER", "KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": "nowhere"})}, "KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL is", "no token endpoint"},
		"TLS that is neither":      {given{env: secure(Environment{"KAFKA_TLS_ENABLED": "perhaps"})}, "KAFKA_TLS_ENABLED is", "in the clear"},
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
