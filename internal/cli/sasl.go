package cli

import (
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/kafka"
)

// brokerSettings are the relay's settings that say how brokers are reached; secrets have no flags.
func brokerSettings() []string {
	return []string{
		"brokers", "client-id", "tls", "tls-ca", "tls-cert", "tls-key", "tls-server-name",
		"sasl-mechanism", "sasl-username", "sasl-without-tls", "sasl-oauth-url", "sasl-oauth-client-id", "sasl-oauth-scope",
	}
}

// sasl are the credentials for Kafka; nil when there are none.
func (p *part) sasl() *kafka.SASL {
	s := &p.cfg
	if s.SASLMechanism == "" {
		return nil
	}
	sasl := &kafka.SASL{
		Mechanism: s.SASLMechanism, Username: s.SASLUsername, Password: string(s.SASLPassword), PasswordFunc: secretFunc(s, "sasl-password"),
		WithoutTLS: s.SASLWithoutTLS,
	}
	if sasl.Mechanism == kafka.MechanismOAuth {
		sasl.OAuth = &kafka.OAuth{
			TokenURL: s.SASLOAuthURL, Scope: s.SASLOAuthScope,
			ClientID: s.SASLOAuthClientID, ClientSecret: string(s.SASLOAuthClientSecret), SecretFunc: secretFunc(s, "sasl-oauth-client-secret"),
		}
	}
	return sasl
}

// secretFunc reads a secret from its file when it is needed; nil when it is from none.
func secretFunc(s *config.Source, key string) func() (string, error) {
	rotating := s.Rotating(key)
	if rotating == nil {
		return nil
	}
	return func() (string, error) { return string(rotating()), nil }
}
