package cli

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devcert"
	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
)

// secured is a server that lets nobody in without TLS: the role certified by its certificate, others by a password.
type secured struct {
	*devpg.Server
	// servers and clients are whom the clients, and whom the server believes.
	servers, clients *devcert.Authority
	admin            *pgx.Conn
	dir              string
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{servers: newAuthority(t), clients: newAuthority(t), dir: t.TempDir()}
	s.Server = pgtest.Server(t, devpg.Options{
		TLS:   &devpg.TLS{Pair: issue(t, s.servers, onLoopback), ClientCA: s.clients.PEM},
		Rules: []string{"hostssl all certified 127.0.0.1/32 cert", "hostssl all all 127.0.0.1/32 scram-sha-256"},
	})
	admin, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(t.Context()) })
	s.admin = admin
	if _, err := migrate.Up(t.Context(), admin, migrate.Config{}); err != nil {
		t.Fatal(err)
	}
	run(t, admin, "CREATE ROLE certified LOGIN SUPERUSER", "CREATE ROLE relay LOGIN SUPERUSER PASSWORD 'hunter2'")
	return s
}

// onLoopback is a server's certificate for its address and for no name.
var onLoopback = devcert.Request{Name: "server", Hosts: []string{"127.0.0.1"}}

func newAuthority(t *testing.T) *devcert.Authority {
	t.Helper()
	a, err := devcert.New("authority of a test")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *devcert.Authority, r devcert.Request) devcert.Pair {
	t.Helper()
	pair, err := a.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// file writes a file that only its owner may read.
func (s *secured) file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	rewrite(t, path, string(content))
	return path
}

// pair writes a client's certificate and key, and returns the parameters that name them.
func (s *secured) pair(t *testing.T, name string, pair devcert.Pair) string {
	t.Helper()
	return "&sslcert=" + s.file(t, name+".crt", pair.Cert) + "&sslkey=" + s.file(t, name+".key", pair.Key)
}

// address is a URL of the database; parameters begin with &.
func (s *secured) address(user, host, parameters string) string {
	u := url.URL{Scheme: "postgres", Host: fmt.Sprintf("%s:%d", host, s.Port()), Path: "/postgres"}
	name, password, _ := strings.Cut(user, ":")
	if u.User = url.User(name); password != "" {
		u.User = url.UserPassword(name, password)
	}
	return u.String() + "?sslmode=verify-full" + parameters
}

func TestASecuredConnectionThatFailsIsSaidInOneLine(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	root := "&sslrootcert=" + s.file(t, "root.crt", s.servers.PEM)
	other := "&sslrootcert=" + s.file(t, "other.crt", newAuthority(t).PEM)
	good := s.pair(t, "good", issue(t, s.clients, devcert.Request{Name: "certified"}))
	named := s.pair(t, "named", issue(t, s.clients, devcert.Request{Name: "somebody"}))
	exposed := s.pair(t, "exposed", issue(t, s.clients, devcert.Request{Name: "certified"}))
	if err := os.Chmod(filepath.Join(s.dir, "exposed.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	mixed := "&sslcert=" + filepath.Join(s.dir, "good.crt") + "&sslkey=" + filepath.Join(s.dir, "named.key")
	empty := s.file(t, "empty.crt", []byte("nothing\n"))
	half := func(of []byte, more []byte) []byte { return append(bytes.Clone(of), more[:len(more)/2]...) }
	cut := "&sslrootcert=" + s.file(t, "cut.crt", half(s.servers.PEM, s.servers.PEM))
	pair := issue(t, s.clients, devcert.Request{Name: "certified"})
	pair.Cert = half(pair.Cert, s.clients.PEM)
	for name, c := range map[string]struct{ url, want string }{
		"another authority":      {s.address("relay:hunter2", "127.0.0.1", other), "the server's certificate cannot be verified: x509: certificate signed by unknown authority\n    hint: name the certificate of its authority by sslrootcert=… or PGSSLROOTCERT\n"},
		"another host name":      {s.address("relay:hunter2", "localhost", root), "\n    hint: use a host name that the server's certificate has\n"},
		"another password":       {s.address("relay:hunter3", "127.0.0.1", root), `password authentication failed for user "relay"`},
		"no client certificate":  {s.address("certified", "127.0.0.1", root), "\n    hint: name a certificate for user certified and its key by sslcert=… and sslkey=…, or PGSSLCERT and PGSSLKEY\n"},
		"another's certificate":  {s.address("certified", "127.0.0.1", root+named), "\n    hint: use a certificate whose common name is certified, or"},
		"no TLS":                 {strings.Replace(s.address("relay:hunter2", "127.0.0.1", ""), "verify-full", "disable", 1), "try sslmode=require"},
		"an exposed key":         {s.address("certified", "127.0.0.1", root+exposed), "exposed.key can be read by others (mode 0644): chmod 600 it"},
		"a key of another":       {s.address("certified", "127.0.0.1", root+mixed), "do not fit: tls: private key does not match public key"},
		"a certificate alone":    {s.address("certified", "127.0.0.1", root+"&sslcert=x.crt"), "of sslcert and sslkey one is missing"},
		"no file of authorities": {s.address("relay:hunter2", "127.0.0.1", "&sslrootcert=/nowhere/root.crt"), "DATABASE_URL: sslrootcert: open /nowhere/root.crt: no such file or directory"},
		"no authority in it":     {s.address("relay:hunter2", "127.0.0.1", "&sslrootcert="+empty), "empty.crt holds no certificate"},
		"authorities cut short":  {s.address("relay:hunter2", "127.0.0.1", cut), "cut.crt: block 2, at line"},
		"a chain cut short":      {s.address("certified", "127.0.0.1", root+s.pair(t, "chain", pair)), "chain.crt: block 2, at line"},
		"no such mode":           {strings.Replace(s.address("relay:hunter2", "127.0.0.1", root), "verify-full", "verify_full", 1), `sslmode is "verify_full": want disable, allow, prefer, require, verify-ca or verify-full`},
		"no such parameter":      {strings.Replace(s.address("relay:hunter2", "127.0.0.1", ""), "sslmode", "sslmod", 1), "\n    hint: correct its name in the connection string"},
	} {
		for _, command := range [][]string{{"status"}, {"relay", "--brokers", "127.0.0.1:1"}} {
			code, said := outcome(t, []string{"DATABASE_URL=" + c.url}, command...)
			said = withoutLog(said)
			if code != exitConfig || !strings.Contains(said, c.want) || strings.Count(said, "\n") > 3 || strings.Contains(said, "hunter") {
				t.Errorf("%s: outbox %s ended with %d and %q; want %d and %q, in a line with a hint at most", name, command[0], code, said, exitConfig, c.want)
			}
		}
	}
	for _, fine := range []string{s.address("relay:hunter2", "127.0.0.1", root), s.address("certified", "127.0.0.1", root+good)} {
		if code, said := outcome(t, []string{"DATABASE_URL=" + fine}, "status"); code != exitOK {
			t.Errorf("status with %s: %d %s", fine, code, said)
		}
	}
	s.outdated(t, root+good)
}

// outdated gives the server, and then the client, a certificate that has expired.
func (s *secured) outdated(t *testing.T, parameters string) {
	t.Helper()
	past := time.Now().Add(-time.Hour)
	says := func(what, want, parameters string) {
		await.Until(t, what, func() bool {
			code, said := outcome(t, []string{"DATABASE_URL=" + s.address("certified", "127.0.0.1", parameters)}, "relay", "--brokers", "127.0.0.1:1", "--start-timeout", "1s")
			return code == exitConfig && strings.Contains(withoutLog(said), want)
		})
	}
	expired := s.pair(t, "expired", issue(t, s.clients, devcert.Request{Name: "certified", Until: past}))
	says("the server refuses the client's certificate", "the server refuses this client's certificate: ", strings.Split(parameters, "&sslcert")[0]+expired)
	request := onLoopback
	request.Until = past
	if err := s.SetTLS(devpg.TLS{Pair: issue(t, s.servers, request), ClientCA: s.clients.PEM}); err != nil {
		t.Fatal(err)
	}
	says("the server's certificate has expired", "the certificate CN=server is valid from ", parameters)
}
