package pg

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// TLSTrouble is why client and server do not get a secured connection.
type TLSTrouble struct {
	// Text says what is wrong.
	Text string
	// Remedy says which file or setting mends it.
	Remedy string
	// Lasting tells that waiting does not mend it.
	Lasting bool
}

// FindTLSTrouble recognises errors of connections by which one end refuses the other's certificate, or the server talks no TLS. It is for whatever uses the
// database, also a service that writes events.
func FindTLSTrouble(err error) (TLSTrouble, bool) {
	if err == nil {
		return TLSTrouble{}, false
	}
	if t, found := refusedCertificate(err); found {
		return t, true
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "refused TLS"):
		return TLSTrouble{"the server does not talk TLS", "turn TLS on there, or set sslmode=disable", true}, true
	case strings.Contains(text, "remote error: tls:"):
		return refusedByAlert(text), true
	}
	return TLSTrouble{}, false
}

// refusedCertificate is what this end says of the server's certificate.
func refusedCertificate(err error) (TLSTrouble, bool) {
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var authority x509.UnknownAuthorityError
	var verify *tls.CertificateVerificationError
	switch {
	case errors.As(err, &host):
		return TLSTrouble{host.Error(), "use a host name that the server's certificate has", true}, true
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return outdated(invalid.Cert), true
	case errors.As(err, &authority):
		// Without its guesses at which authority it might be.
		return unverified("x509: certificate signed by unknown authority"), true
	case errors.As(err, &verify):
		return unverified(verify.Err.Error()), true
	}
	return TLSTrouble{}, false
}

func unverified(why string) TLSTrouble {
	return TLSTrouble{"the server's certificate cannot be verified: " + why, "name the certificate of its authority by sslrootcert=… or PGSSLROOTCERT", true}
}

// outdated also covers what is not valid yet: a clock that is wrong shows as either.
func outdated(cert *x509.Certificate) TLSTrouble {
	remedy := "renew the server's certificate, or that of its authority; if it should be valid, set the clock of this machine"
	if cert == nil {
		return TLSTrouble{"the server's certificate is not valid now", remedy, true}
	}
	return TLSTrouble{fmt.Sprintf("the certificate %s is valid from %s until %s only", cert.Subject,
		cert.NotBefore.UTC().Format(time.RFC3339), cert.NotAfter.UTC().Format(time.RFC3339)), remedy, true}
}

// refusedByAlert is what the server says of this client, by an alert: more it does not tell anybody whom it does not know.
func refusedByAlert(text string) TLSTrouble {
	_, alert, _ := strings.Cut(text, "remote error: tls: ")
	alert, _, _ = strings.Cut(alert, "\n")
	alert, _, _ = strings.Cut(alert, ")")
	if !strings.Contains(alert, "certificate") {
		return TLSTrouble{"the server ends the TLS handshake: " + alert, "look at the server's log", false}
	}
	return TLSTrouble{"the server refuses this client's certificate: " + alert,
		"name by sslcert and sslkey a certificate that has not expired, of an authority that the server's ssl_ca_file has", true}
}
