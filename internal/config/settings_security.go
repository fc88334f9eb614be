package config

import (
	"net/url"
	"strings"
)

// SASL mechanisms, by what they need.
var (
	withPassword = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
	withTokens   = "OAUTHBEARER"
	withAWS      = "AWS_MSK_IAM"
)

func ofKafkaSecurity() []Setting {
	return []Setting{
		{Key: "tls", Usual: "KAFKA_TLS_ENABLED", Scope: PerSource, Kind: Bool, Usage: "talk TLS to the brokers; a file below does that by itself (KAFKA_TLS_ENABLED)"},
		pem(Setting{Key: "tls-ca", Usual: "KAFKA_SSL_CA", Scope: PerSource, Kind: Text, Example: "/etc/kafka/ca.pem", Usage: "PEM `file` of the authorities to trust in place of the system's (KAFKA_SSL_CA)"}),
		pem(Setting{Key: "tls-cert", Usual: "KAFKA_SSL_CERT", Scope: PerSource, Kind: Text, Example: "/etc/kafka/tls.crt", Usage: "PEM `file` of the client certificate, for brokers that want one (KAFKA_SSL_CERT)"}),
		pem(Setting{Key: "tls-key", Usual: "KAFKA_SSL_KEY", Scope: PerSource, Kind: Text, Example: "/etc/kafka/tls.key", Usage: "PEM `file` of its key, without a passphrase; all three files are read again for each new connection (KAFKA_SSL_KEY)"}),
		{Key: "tls-server-name", Usual: "KAFKA_SSL_SERVER_NAME", Scope: PerSource, Kind: Text, Example: "kafka.example.com", Usage: "the `name` that the brokers' certificates must have; without it the host that is dialled (KAFKA_SSL_SERVER_NAME)"},
		{Key: "sasl-mechanism", Usual: "KAFKA_SASL_MECHANISM", Scope: PerSource, Kind: Text, Example: "SCRAM-SHA-512", Words: append(append([]string{}, withPassword...), withTokens, withAWS), Usage: "%s (KAFKA_SASL_MECHANISM); the password comes by KAFKA_SASL_PASSWORD or KAFKA_SASL_PASSWORD_FILE, AWS credentials by AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"},
		{Key: "sasl-username", Usual: "KAFKA_SASL_USERNAME", Scope: PerSource, Kind: Text, Example: "outbox", Usage: "SASL user `name` (KAFKA_SASL_USERNAME)"},
		{Key: "sasl-password", Usual: "KAFKA_SASL_PASSWORD", Scope: PerSource, Kind: Text, Secret: true, Example: "/run/secrets/kafka", Usage: "SASL password"},
		{Key: "sasl-without-tls", Scope: PerSource, Kind: Bool, Usage: "let PLAIN and OAUTHBEARER send password or token unencrypted, where nobody else is on the network"},
		{
			Key: "sasl-oauth-url", Usual: "KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL", Scope: PerSource, Kind: Text, Example: "https://login.example.com/oauth2/token", Usage: "the token endpoint's `URL`, for OAUTHBEARER",
			ok: endpoint, want: "https://host/path, without a user or a password",
		},
		{Key: "sasl-oauth-client-id", Usual: "KAFKA_SASL_OAUTHBEARER_CLIENT_ID", Scope: PerSource, Kind: Text, Example: "outbox-relay", Usage: "the client `id` there"},
		{Key: "sasl-oauth-client-secret", Usual: "KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET", Scope: PerSource, Kind: Text, Secret: true, Example: "/run/secrets/oauth", Usage: "its client secret"},
		{Key: "sasl-oauth-scope", Usual: "KAFKA_SASL_OAUTHBEARER_SCOPE", Scope: PerSource, Kind: Text, Example: "kafka", Usage: "the `scope` to ask for, words with blanks between them"},
	}
}

// pemBegins begins what is in a file that is meant, and is given in its place now and then. It may be a key: no error repeats it.
const pemBegins = "-----BEGIN"

// pem wants the path of a file.
func pem(s Setting) Setting {
	s.ok = func(v any) bool { return !strings.Contains(v.(string), pemBegins) }
	s.want = "the path of a file, not what is in it"
	return s
}

func endpoint(v any) bool {
	u, err := url.Parse(v.(string))
	return v == "" || err == nil && u.Host != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http")
}
