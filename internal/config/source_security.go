package config

import "slices"

// lacks adds what is wrong with a source.
type lacks func(format string, args ...any)

func (s *Source) tlsProblems(add lacks) {
	for _, key := range []string{"tls-ca", "tls-cert", "tls-key", "tls-server-name"} {
		if s.has(key) && s.Made("tls") && !s.TLS {
			add("%s is false, and %s is set: leave one of them out", s.Named("tls"), s.Named(key))
			return
		}
	}
	switch {
	case s.TLSCert != "" && s.TLSKey == "" && s.Lacks("tls-key"):
		add("%s is set and no key: set %s", s.Named("tls-cert"), s.How("tls-key", "KAFKA_SSL_KEY or --tls-key"))
	case s.TLSCert == "" && s.TLSKey != "" && s.Lacks("tls-cert"):
		add("%s is set and no certificate: set %s", s.Named("tls-key"), s.How("tls-cert", "KAFKA_SSL_CERT or --tls-cert"))
	}
}

// has tells that a setting with a text is not empty.
func (s *Source) has(key string) bool {
	field := tagged(s)[key]
	return field.String() != ""
}

// saslProblems are what a mechanism lacks, and settings that none uses.
func (s *Source) saslProblems(add lacks) {
	switch {
	case s.SASLMechanism == "" && s.Lacks("sasl-mechanism"):
		s.saslUnused(add)
	case slices.Contains(withPassword, s.SASLMechanism):
		s.saslNeeds(add, "sasl-username", "user", "KAFKA_SASL_USERNAME")
		s.saslNeeds(add, "sasl-password", "password", "KAFKA_SASL_PASSWORD")
		if s.SASLMechanism == "PLAIN" {
			s.saslInTheClear(add, "password")
		}
	case s.SASLMechanism == withTokens:
		s.saslNeeds(add, "sasl-oauth-url", "token endpoint", "KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL")
		s.saslNeeds(add, "sasl-oauth-client-id", "client id", "KAFKA_SASL_OAUTHBEARER_CLIENT_ID")
		s.saslNeeds(add, "sasl-oauth-client-secret", "client secret", "KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET")
		s.saslInTheClear(add, "token")
	}
}

// saslInTheClear refuses to show a secret to the network.
func (s *Source) saslInTheClear(add lacks, secret string) {
	if s.TLS || s.TLSCA != "" || s.TLSCert != "" || s.TLSServerName != "" || s.SASLWithoutTLS || !s.Lacks("tls", "tls-ca", "tls-cert", "tls-server-name", "sasl-without-tls") {
		return
	}
	add("%s is %s, which without TLS sends the %s in the clear: set %s, or use SCRAM, or, where nobody else is on the network, set %s",
		s.Named("sasl-mechanism"), s.SASLMechanism, secret, s.How("tls", "KAFKA_TLS_ENABLED or --tls"), s.How("sasl-without-tls", "--sasl-without-tls"))
}

// saslUnused refuses settings without a mechanism: who made them wants to authenticate.
func (s *Source) saslUnused(add lacks) {
	for _, key := range []string{"sasl-username", "sasl-oauth-url"} {
		if s.has(key) {
			mechanism, _, _ := find("sasl-mechanism")
			add("%s is set and no mechanism: set %s", s.Named(key), s.How("sasl-mechanism", "KAFKA_SASL_MECHANISM")+" to "+Alternatives(mechanism.Words))
			return
		}
	}
}

func (s *Source) saslNeeds(add lacks, key, what, usual string) {
	if s.has(key) || !s.Lacks(key) {
		return
	}
	setting, _, _ := find(key)
	if setting.Secret {
		key += fileSuffix
	}
	add("%s is set and no %s: set %s", s.Named("sasl-mechanism"), what, s.How(key, usual))
}
