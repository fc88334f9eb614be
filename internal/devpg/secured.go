package devpg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/outbox-relay/outbox/internal/devcert"
)

// TLS is how a server proves itself, and whose certificates it believes.
type TLS struct {
	// Pair is the server's own certificate with its key.
	devcert.Pair
	// ClientCA are the authorities of the clients' certificates, PEM; nil when the server asks for none. Where a rule of [Options].Rules wants a certificate
	// there must be some.
	ClientCA []byte
}

// tlsFiles are the names in the data folder, by the parameters that tell them.
var tlsFiles = map[string]string{"ssl_cert_file": "server.crt", "ssl_key_file": "server.key", "ssl_ca_file": "clients.crt"}

// SetTLS gives the server another certificate and other authorities. Connections that are made from some moment on meet them; a server that was started without
// [Options].TLS still talks none.
func (s *Server) SetTLS(t TLS) error {
	if err := s.writeTLS(t); err != nil {
		return err
	}
	return s.reload()
}

func (s *Server) writeTLS(t TLS) error {
	for parameter, content := range map[string][]byte{"ssl_cert_file": t.Cert, "ssl_key_file": t.Key, "ssl_ca_file": t.ClientCA} {
		if err := s.writeOwn(tlsFiles[parameter], content); err != nil {
			return fmt.Errorf("write the server's certificates: %w", err)
		}
	}
	return nil
}

// writeRules replaces pg_hba.conf. The superuser is always let in from this machine: this package asks by it whether the server answers.
func (s *Server) writeRules(rules []string) error {
	lines := append([]string{"host all " + superuser + " 127.0.0.1/32 trust"}, rules...)
	if err := s.writeOwn("pg_hba.conf", []byte(strings.Join(lines, "\n")+"\n")); err != nil {
		return fmt.Errorf("write the server's rules: %w", err)
	}
	return nil
}

// writeOwn writes a file of the data folder that only the server's user may read: the server refuses any other key. It is replaced whole.
func (s *Server) writeOwn(name string, content []byte) error {
	path := filepath.Join(s.folder.data(), name)
	fresh := path + ".new"
	if err := os.WriteFile(fresh, content, 0o600); err != nil {
		return err
	}
	if s.account != nil {
		if err := s.account.Own(fresh); err != nil {
			return err
		}
	}
	return os.Rename(fresh, path)
}

// secure writes what the options say of certificates and rules, before the server starts.
func (s *Server) secure() error {
	if s.options.TLS != nil {
		if err := s.writeTLS(*s.options.TLS); err != nil {
			return err
		}
	}
	if s.options.Rules == nil {
		return nil
	}
	return s.writeRules(s.options.Rules)
}

// reload makes a running server read its files again.
func (s *Server) reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.process.running() {
		return nil
	}
	if err := s.process.cmd.Process.Signal(signalReload); err != nil {
		return fmt.Errorf("make PostgreSQL read its files again: %w", err)
	}
	return nil
}
