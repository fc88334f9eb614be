package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/internal/certfile"
	bounded "github.com/outbox-relay/outbox/internal/patience"
)

// tlsFiles make a configuration of TLS for each new connection from what the files hold then, so that certificates can be replaced while the process runs. All clients
// of one Config share it.
type tlsFiles struct {
	ca, cert, key, serverName string
	log                       *slog.Logger
	now                       func() time.Time

	// again reads the files for a new connection; it holds what they held when they could be read last. nil before check.
	again *bounded.Again[*tls.Config]

	mu sync.Mutex
	// said is what was wrong with them last; "" when nothing was.
	said string
}

// filesLimit is how long files of TLS may take, of a mount that hangs: a connection waits for them.
const filesLimit = time.Second

// files are those of the configuration; nil when it names none.
func (c Config) files() *tlsFiles {
	if c.TLSCAFile == "" && c.TLSCertFile == "" && c.TLSKeyFile == "" {
		return nil
	}
	return &tlsFiles{ca: c.TLSCAFile, cert: c.TLSCertFile, key: c.TLSKeyFile, serverName: c.TLSServerName, log: c.Logger, now: c.now}
}

// config is for a new connection. Files that cannot be read, such as ones that are just being replaced, count as unchanged: who refuses what they held says so.
func (f *tlsFiles) config() *tls.Config {
	cfg, err := f.again.Try(context.Background())
	f.say(err)
	if err != nil {
		return f.again.Read(context.Background())
	}
	return cfg
}

// say warns of what is wrong with the files, once for as long as it is.
func (f *tlsFiles) say(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != f.said {
		f.log.Warn("TLS files cannot be used; what they held before is", "error", err)
	}
	f.said = text
}

// check reads the files, once for all copies of a Config: what happens to them later is not for whoever makes the next client.
func (f *tlsFiles) check() error {
	if f.again != nil {
		return nil
	}
	cfg, err := bounded.Call(context.Background(), filesLimit, f.read)
	if err == nil {
		err = f.timely(cfg)
	}
	if isA[*bounded.SilentError](err) {
		err = fmt.Errorf("TLS files: %w: the mount of one of them hangs: %s", err, strings.Join(slices.DeleteFunc([]string{f.ca, f.cert, f.key}, isEmpty), ", "))
	}
	if err != nil {
		return &FilesError{err}
	}
	f.again = bounded.NewAgain(cfg, filesLimit, f.read)
	return nil
}

// FilesError tells that files of TLS cannot be used: one is missing, is something else, or has expired.
type FilesError struct{ error }

// Unwrap returns why.
func (e *FilesError) Unwrap() error { return e.error }

func isEmpty(s string) bool { return s == "" }

func (f *tlsFiles) read() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.serverName}
	var problems []error
	if f.ca != "" {
		pool, err := readCA(f.ca)
		cfg.RootCAs, problems = pool, append(problems, err)
	}
	if f.cert != "" && f.key != "" {
		pair, err := readPair(f.cert, f.key)
		// A list would be searched for a certificate of an authority that the broker names; one that it does not name is to be refused by the broker, which says so.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		cfg.Certificates, problems = []tls.Certificate{pair}, append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return cfg, nil
}

// timely refuses a client certificate that no broker accepts.
func (f *tlsFiles) timely(cfg *tls.Config) error {
	if len(cfg.Certificates) == 0 {
		return nil
	}
	leaf := cfg.Certificates[0].Leaf
	switch now := f.now(); {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("TLS certificate file %s: the certificate has expired on %s: replace it", f.cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("TLS certificate file %s: the certificate is not valid before %s: replace it, or set this machine's clock", f.cert, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// subject is the name in the client certificate, as brokers write it; "" without one.
func (f *tlsFiles) subject() string {
	cfg := f.config()
	if len(cfg.Certificates) == 0 {
		return ""
	}
	return cfg.Certificates[0].Leaf.Subject.String()
}

// maxPEM is more than any bundle of authorities has.
const maxPEM = 8 << 20

func readPEM(what, path string) ([]byte, error) {
	content, err := bounded.RegularFile(path, what, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if !bytes.Contains(content, []byte("-----BEGIN ")) {
		return nil, fmt.Errorf("%s: %s is not in PEM form, which begins with -----BEGIN: convert a Java keystore or a PKCS#12 file by openssl pkcs12", what, path)
	}
	return content, nil
}

func readCA(path string) (*x509.CertPool, error) {
	const what = "TLS CA file"
	content, err := readPEM(what, path)
	if err != nil {
		return nil, err
	}
	if err := certfile.Check(content); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", what, path, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s: %s holds no certificate that can be read: give it that of the authority that has signed the brokers'", what, path)
	}
	return pool, nil
}

// readPair reads a certificate, with those between it and the authority, and its key. No error repeats anything of the key.
func readPair(cert, key string) (tls.Certificate, error) {
	const certFile, keyFile = "TLS certificate file", "TLS key file"
	certPEM, certErr := readPEM(certFile, cert)
	keyPEM, keyErr := readPEM(keyFile, key)
	if err := errors.Join(certErr, keyErr); err != nil {
		return tls.Certificate{}, err
	}
	if err := certfile.Check(certPEM); err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %s: %w", certFile, cert, err)
	}
	if isEncrypted(keyPEM) {
		return tls.Certificate{}, fmt.Errorf("%s: %s is encrypted: give the key without a passphrase (openssl pkey), in a file that only this program may read", keyFile, key)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("TLS certificate file %s with key file %s: %w", cert, key, err)
	}
	return pair, nil
}

func isEncrypted(content []byte) bool {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
			return true
		}
	}
	return false
}

// tlsProblems are what is wrong with the settings of TLS.
func (c Config) tlsProblems() []error {
	var problems []error
	named := c.tlsFiles != nil || c.TLSServerName != ""
	if c.givenTLS && named {
		problems = append(problems, errors.New("TLSConfig and files of TLS or a server name are both given: leave one out"))
	}
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		return append(problems, errors.New("TLS certificate file and TLS key file belong together: give both, or none"))
	}
	if c.tlsFiles != nil {
		if err := c.tlsFiles.check(); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}
