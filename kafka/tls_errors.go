package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// tlsError is why there is no encrypted connection, with what to do about it.
type tlsError struct {
	err    error
	advice string
}

func (e *tlsError) Error() string { return fmt.Sprintf("%v: %s", e.err, e.advice) }

// Unwrap returns what the handshake said.
func (e *tlsError) Unwrap() error { return e.err }

// refusedHere explains why this side has ended a handshake; what is not known is returned as it is.
func refusedHere(err error, cfg *tls.Config) error {
	advice := ""
	switch {
	case isA[x509.UnknownAuthorityError](err) && cfg.RootCAs == nil:
		advice = "the broker's certificate is not signed by an authority that this machine knows: name the CA file of the one that has signed it"
	case isA[x509.UnknownAuthorityError](err):
		advice = "the broker's certificate is signed by another authority than those of the CA file: give the file that of the brokers"
	case isA[x509.HostnameError](err):
		advice = "name the broker as its certificate does, or give that name as the TLS server name"
	case isA[x509.CertificateInvalidError](err):
		advice = ofInvalid(err)
	case isA[tls.RecordHeaderError](err):
		advice = "what answers does not speak TLS: name a listener with TLS, or turn TLS off"
	default:
		return refusedThere(err, hasCertificate(cfg))
	}
	return &tlsError{err, advice}
}

func ofInvalid(err error) string {
	var invalid x509.CertificateInvalidError
	errors.As(err, &invalid)
	if invalid.Reason == x509.Expired && invalid.Cert != nil {
		return fmt.Sprintf("the broker's certificate is valid from %s to %s: replace it there, or set this machine's clock",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	}
	return "replace the certificate of the broker"
}

const wantsCertificate = "the broker wants a client certificate: name the files of certificate and key"

// alerts are what brokers send that end a connection, by a part of Go's names for them. Those of the client certificate come after the handshake.
var alerts = []struct{ part, advice string }{
	{"certificate required", wantsCertificate},
	{"expired certificate", "the client certificate has expired: replace its file"},
	{"revoked certificate", "the client certificate was revoked: replace its file"},
	{"unknown certificate authority", "the broker does not know the authority of the client certificate: use one that is signed by an authority of its trust store"},
	{"certificate", "the broker does not accept the client certificate: look at its authority and its dates, and at the broker's log"},
	{"protocol version", "the broker offers no TLS 1.2 or newer"},
	{"handshake failure", "the broker found nothing to agree on, or wants a client certificate: look at the broker's log"},
}

// refusedThere explains why the broker has ended a connection, to which this side has brought a certificate or not; what is not known is returned as it is.
func refusedThere(err error, certified bool) error {
	said, ok := errors.AsType[*net.OpError](err)
	if !ok || said.Op != "remote error" {
		return err
	}
	for _, a := range alerts {
		switch {
		case !strings.Contains(said.Error(), a.part):
		case !certified && strings.Contains(a.part, "certificate"):
			return &tlsError{err, wantsCertificate}
		default:
			return &tlsError{err, a.advice}
		}
	}
	return err
}

func hasCertificate(cfg *tls.Config) bool {
	return cfg.GetClientCertificate != nil || len(cfg.Certificates) > 0
}

func isA[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
