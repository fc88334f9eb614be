package devcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime is that of certificates that say nothing else: longer than any test.
const lifetime = 24 * time.Hour

// Authority signs certificates. Its key is never written to a file.
type Authority struct {
	// PEM is its own certificate, for those who are to trust it.
	PEM  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Request says what a certificate is for. It serves servers and clients alike.
type Request struct {
	// Name is the common name: of a client the role that it connects by.
	Name string
	// Hosts are the names and addresses that a server is reached by.
	Hosts []string
	// Until is when it ends; the zero value is in a day.
	Until time.Time
}

// Pair is a certificate with its key, both PEM; the key is in PKCS#8.
type Pair struct{ Cert, Key []byte }

// Write puts the pair into the folder as name.crt and name.key, each replaced whole.
func (p Pair) Write(dir, name string) (cert, key string, err error) {
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if err := replace(cert, p.Cert); err != nil {
		return "", "", err
	}
	return cert, key, replace(key, p.Key)
}

func replace(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return fmt.Errorf("write a certificate: %w", err)
	}
	return os.Rename(path+".new", path)
}

// New makes an authority of that name.
func New(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-2 * lifetime),
		NotAfter:              time.Now().Add(lifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	return &Authority{PEM: encode("CERTIFICATE", der), cert: cert, key: key}, nil
}

// Issue makes a key and signs a certificate for it.
func (a *Authority) Issue(r Request) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make the key of %s: %w", r.Name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		return Pair{}, fmt.Errorf("choose the number of %s: %w", r.Name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, r.template(serial), a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the certificate of %s: %w", r.Name, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("write the key of %s: %w", r.Name, err)
	}
	return Pair{Cert: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", secret)}, nil
}

func (r Request) template(serial *big.Int) *x509.Certificate {
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: r.Name},
		NotBefore:    time.Now().Add(-2 * lifetime),
		NotAfter:     r.Until,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if t.NotAfter.IsZero() {
		t.NotAfter = time.Now().Add(lifetime)
	}
	for _, host := range r.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, host)
		}
	}
	return t
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
