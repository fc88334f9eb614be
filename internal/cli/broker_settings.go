package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/relay"
)

// withSource is an error of a source, with its settings: the publisher's errors do not know by what they were made.
type withSource struct {
	error
	source *config.Source
}

// Unwrap returns the error itself.
func (w *withSource) Unwrap() error { return w.error }

// told adds what is known of the source to an error; nil stays nil.
func told(err error, password string, source *config.Source) error {
	if err == nil || source == nil {
		return placed(err, password)
	}
	return &withSource{placed(err, password), source}
}

// explainBrokers says which settings are to be mended where the brokers refuse this client for good; it returns nil for everything else.
func explainBrokers(err error) error {
	publish, ok := errors.AsType[*relay.PublishError](err)
	if !ok || publish.Class != relay.ClassOutage || !errors.Is(err, relay.ErrConfiguration) {
		return nil
	}
	text := publish.Error()
	if known, ok := errors.AsType[*withSource](err); ok {
		if where := mending(publish, known.source); where != "" {
			text += "\n  hint: " + where
		}
	}
	return &configError{&explainedError{text, err}}
}

// mending says by what the settings were made, or can be, that an outage is about; "" where that is not known.
func mending(publish *relay.PublishError, s *config.Source) string {
	switch {
	case publish.Code == "SASL_AUTHENTICATION_FAILED":
		return credentials(s)
	case publish.Code == "UNSUPPORTED_SASL_MECHANISM":
		return fmt.Sprintf("the mechanism %s is that of %s", s.SASLMechanism, s.Named("sasl-mechanism"))
	case errors.As(publish, new(x509.UnknownAuthorityError)):
		return madeBy(s, "the CA file", "tls-ca", "KAFKA_SSL_CA, or --tls-ca")
	case errors.As(publish, new(x509.HostnameError)):
		return madeBy(s, "the TLS server name", "tls-server-name", "--tls-server-name")
	case errors.As(publish, new(tls.RecordHeaderError)):
		for _, key := range []string{"tls", "tls-ca", "tls-cert", "tls-server-name"} {
			if s.Made(key) {
				return "TLS was turned on by " + s.Named(key)
			}
		}
	case strings.Contains(publish.Error(), "client certificate"):
		return madeBy(s, "the certificate", "tls-cert", "KAFKA_SSL_CERT and KAFKA_SSL_KEY, or --tls-cert and --tls-key")
	case strings.Contains(publish.Error(), "turn TLS on"):
		return madeBy(s, "TLS", "tls", "KAFKA_TLS_ENABLED=true, or --tls")
	}
	return ""
}

// credentials says where those came from that were refused.
func credentials(s *config.Source) string {
	switch s.SASLMechanism {
	case kafka.MechanismOAuth:
		return fmt.Sprintf("the token is from %s, got as client %s (%s) with the secret of %s", s.Named("sasl-oauth-url"), s.SASLOAuthClientID, s.Named("sasl-oauth-client-id"), s.Named("sasl-oauth-client-secret"))
	case kafka.MechanismIAM:
		return ""
	}
	return fmt.Sprintf("the user is %s, by %s, and the password was taken from %s", cmp.Or(s.SASLUsername, "nobody"), s.Named("sasl-username"), s.Named("sasl-password"))
}

// madeBy says by what a setting was made, or else how it is made.
func madeBy(s *config.Source, what, key, usual string) string {
	if s.Made(key) {
		return fmt.Sprintf("%s is that of %s", what, s.Named(key))
	}
	return fmt.Sprintf("%s is set by %s", what, s.How(key, usual))
}
