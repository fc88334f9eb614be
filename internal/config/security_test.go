package config

import (
	"strings"
	"testing"
)

func TestWhatTLSAndSASLLackIsNamedWithItsPlace(t *testing.T) {
	t.Parallel()
	const tokens = "tls: true\nsasl-mechanism: OAUTHBEARER\n"
	for text, want := range map[string]string{
		"tls: false\ntls-ca: /ca.pem\n": "outbox.yaml:1: tls is false, and outbox.yaml:2: tls-ca is set: leave one of them out",
		"tls-cert: /tls.crt\n":          "outbox.yaml:1: tls-cert is set and no key: set KAFKA_SSL_KEY or --tls-key",
		"tls-key: /tls.key\n":           "outbox.yaml:1: tls-key is set and no certificate: set KAFKA_SSL_CERT or --tls-cert",
		"sasl-mechanism: PLAIN\nsasl-username: me\nsasl-password: hunter2\n": "outbox.yaml:1: sasl-mechanism is PLAIN, which without TLS sends the password in the clear: set KAFKA_TLS_ENABLED or --tls, or use SCRAM, or, where nobody else is on the network, set --sasl-without-tls",
		tokens: "outbox.yaml:2: sasl-mechanism is set and no token endpoint: set KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL\n" +
			"outbox.yaml:2: sasl-mechanism is set and no client id: set KAFKA_SASL_OAUTHBEARER_CLIENT_ID\n" +
			"outbox.yaml:2: sasl-mechanism is set and no client secret: set KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET",
		"sasl-oauth-url: https://login/token\n":                   "outbox.yaml:1: sasl-oauth-url is set and no mechanism: set KAFKA_SASL_MECHANISM to PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM",
		tokens + "sasl-oauth-url: https://me:hunter2@login/token": "outbox.yaml:3: sasl-oauth-url is not shown: want https://host/path, without a user or a password",
		"tls-key: |\n  -----BEGIN PRIVATE KEY-----\n  hunter2\n":  "outbox.yaml:1: tls-key is not shown: want the path of a file, not what is in it",
	} {
		_, err := load(t, given{file: strings.TrimSuffix(text, "\n") + "\nbrokers: h:1\n"})
		if err == nil {
			t.Errorf("%s: no error", text)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestWhatIsCompleteIsTaken(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"tls-ca: /ca.pem\ntls-cert: /c\ntls-key: /k\ntls-server-name: kafka\n",
		"tls-ca: /ca.pem\nsasl-mechanism: PLAIN\nsasl-username: me\nsasl-password: p\n",
		"sasl-mechanism: PLAIN\nsasl-username: me\nsasl-password: p\nsasl-without-tls: true\n",
		"tls: true\nsasl-mechanism: OAUTHBEARER\nsasl-oauth-url: https://login/token\nsasl-oauth-client-id: me\nsasl-oauth-client-secret: s\nsasl-oauth-scope: a b\n",
		"tls: true\nsasl-mechanism: AWS_MSK_IAM\n",
	} {
		if _, err := load(t, given{file: "brokers: h:1\n" + text}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
