package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/internal/devcert"
	"github.com/outbox-relay/outbox/relay"
)

// pki is an authority with a folder for what it signs.
type pki struct {
	t *testing.T
	*devcert.Authority
	dir string
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	a, err := devcert.New("authority of a test")
	if err != nil {
		t.Fatal(err)
	}
	return &pki{t, a, t.TempDir()}
}

func (p *pki) file(name string, content []byte) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func (p *pki) ca() string { return p.file("ca.pem", p.PEM) }

func (p *pki) sign(name string, until time.Duration) devcert.Pair {
	p.t.Helper()
	pair, err := p.Issue(devcert.Request{Name: name, Hosts: []string{"127.0.0.1"}, Until: time.Now().Add(until)})
	if err != nil {
		p.t.Fatal(err)
	}
	return pair
}

// files are those of a client.
func (p *pki) files(name string) (cert, key string) {
	p.t.Helper()
	cert, key, err := p.sign(name, time.Hour).Write(p.dir, name)
	if err != nil {
		p.t.Fatal(err)
	}
	return cert, key
}

// server is the configuration of a broker that wants client certificates of the authority.
func (p *pki) server() *tls.Config {
	p.t.Helper()
	pair := p.sign("broker", time.Hour)
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		p.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.PEM)
	return &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
}

func TestFilesOfTLSThatCannotBeUsedAreAllNamed(t *testing.T) {
	t.Parallel()
	p, other := newPKI(t), newPKI(t)
	cert, key := p.files("client")
	_, foreign := other.files("client")
	old := p.sign("old", -time.Minute)
	oldCert, oldKey, err := old.Write(p.dir, "old")
	if err != nil {
		t.Fatal(err)
	}
	encrypted := p.file("encrypted.key", []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nc2VjcmV0\n-----END ENCRYPTED PRIVATE KEY-----\n"))
	jks := p.file("store.jks", []byte{0xfe, 0xed, 0xfe, 0xed})
	whole, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	cut := append(whole, p.PEM[:len(p.PEM)/2]...)
	for what, c := range map[string]struct {
		cfg   Config
		words []string
	}{
		"missing":             {Config{TLSCAFile: "/nowhere/ca.pem", TLSCertFile: "/nowhere/tls.crt", TLSKeyFile: "/nowhere/tls.key"}, []string{"TLS CA file: open /nowhere/ca.pem", "TLS certificate file: open /nowhere/tls.crt", "TLS key file: open /nowhere/tls.key"}},
		"a device":            {Config{TLSCAFile: os.DevNull}, []string{"is no regular file"}},
		"a folder":            {Config{TLSCAFile: p.dir}, []string{"is a directory: name the file in it"}},
		"a Java keystore":     {Config{TLSCAFile: jks}, []string{"store.jks is not in PEM form", "openssl pkcs12"}},
		"a key as CA":         {Config{TLSCAFile: key}, []string{"holds no certificate that can be read"}},
		"a CA that is cut":    {Config{TLSCAFile: p.file("cut-ca.pem", cut)}, []string{"TLS CA file: ", "cut-ca.pem: block 2, at line", "is cut or damaged", "take that block out"}},
		"a chain that is cut": {Config{TLSCertFile: p.file("cut.crt", cut), TLSKeyFile: key}, []string{"TLS certificate file: ", "cut.crt: block 2, at line", "is cut or damaged"}},
		"no key":              {Config{TLSCertFile: cert}, []string{"belong together"}},
		"no certificate":      {Config{TLSKeyFile: key}, []string{"belong together"}},
		"a key of another":    {Config{TLSCertFile: cert, TLSKeyFile: foreign}, []string{"private key does not match"}},
		"an encrypted key":    {Config{TLSCertFile: cert, TLSKeyFile: encrypted}, []string{"encrypted.key is encrypted", "without a passphrase"}},
		"expired":             {Config{TLSCertFile: oldCert, TLSKeyFile: oldKey}, []string{"old.crt: the certificate has expired on", "replace it"}},
		"a clock of before":   {Config{TLSCertFile: cert, TLSKeyFile: key, now: func() time.Time { return time.Unix(1, 0) }}, []string{"is not valid before", "clock"}},
		"twice":               {Config{TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSCAFile: p.ca()}, []string{"leave one out"}},
		"twice the name":      {Config{TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSServerName: "h"}, []string{"leave one out"}},
	} {
		c.cfg.Brokers = []string{"h:1"}
		_, err := NewPublisher(c.cfg)
		if err == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		for _, word := range c.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q is not in %v", what, word, err)
			}
		}
		if strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%s: the key is in %v", what, err)
		}
	}
	commented := p.file("commented.pem", slices.Concat([]byte("# the first\n"), p.PEM, []byte("\nthe second:\n"), other.PEM))
	if _, err := NewPublisher(Config{Brokers: []string{"h:1"}, TLSCAFile: commented, TLSCertFile: cert, TLSKeyFile: key, TLSServerName: "broker"}); err != nil {
		t.Errorf("with good files: %v", err)
	}
}

// The broker's side changes the authority, and the files do; the connections that were there are cut.
func TestReplacedFilesAreUsedForTheNextConnectionAndBrokenOnesAreNot(t *testing.T) {
	t.Parallel()
	before, after := newPKI(t), newPKI(t)
	after.dir = before.dir
	var side atomic.Pointer[tls.Config]
	side.Store(before.server())
	network := &cutter{}
	c := fake(t, kfake.ListenFn(network.listen), kfake.SeedTopics(1, "t"), kfake.TLS(&tls.Config{
		MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return side.Load(), nil },
	}))
	cert, key := before.files("client")
	p := opened(t, Config{Brokers: c.ListenAddrs(), TLSCAFile: before.ca(), TLSCertFile: cert, TLSKeyFile: key})
	published := 0
	publish := func() {
		t.Helper()
		published++
		o := newOutcomes(t)
		p.Publish([]*relay.Event{event(published, "t", "a")}, o.done)
		o.want(map[int64]string{int64(published): ""})
	}
	publish()
	before.file("client.crt", []byte("half of a fi"))
	network.cut()
	publish() // by what the file held before
	side.Store(after.server())
	after.files("client")
	after.ca()
	network.cut()
	publish()
}

func TestTheNameInTheClientCertificateIsWhoTheBrokersKnow(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	cert, key := p.files("relay")
	for want, cfg := range map[string]Config{
		"User:CN=relay":  {TLSCertFile: cert, TLSKeyFile: key},
		"User:somebody":  {TLSCertFile: cert, TLSKeyFile: key, SASL: &SASL{Mechanism: MechanismPlain, Username: "somebody", Password: "p"}},
		"User:ANONYMOUS": {TLSCAFile: p.ca()},
	} {
		cfg.Brokers = []string{"h:1"}
		i, err := NewInspector(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := i.User(); got != want || i.IsAnonymous() != (want == "User:ANONYMOUS") {
			t.Errorf("got %s, want %s", got, want)
		}
		i.Close()
	}
}
