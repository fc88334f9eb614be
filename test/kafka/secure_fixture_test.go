//go:build integration

package kafka_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devcert"
	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/kafka"
)

// password is that of all users of the secure brokers.
const password = "a-secret-of-the-test"

// secure is a broker with TLS and rules, which the tests in need of one share; it ends with the last of them.
var secure struct {
	sync.Mutex
	cluster   *devkafka.Cluster
	authority *devcert.Authority
	uses      int
}

// secureFixture is a fixture whose relays come by TLS. Its own clients may do anything.
type secureFixture struct {
	*fixture
	cluster   *devkafka.Cluster
	authority *devcert.Authority
	// dir has ca.pem, and the certificates that were made.
	dir string
}

func newSecureFixture(t *testing.T) *secureFixture {
	t.Helper()
	secure.Lock()
	defer secure.Unlock()
	if secure.uses == 0 {
		secure.cluster, secure.authority = startSecure(t)
	}
	secure.uses++
	t.Cleanup(func() {
		secure.Lock()
		defer secure.Unlock()
		if secure.uses--; secure.uses == 0 {
			_ = secure.cluster.Close()
		}
	})
	return newSecureFixtureOn(t, secure.cluster, secure.authority)
}

func newSecureFixtureOn(t *testing.T, cluster *devkafka.Cluster, authority *devcert.Authority) *secureFixture {
	t.Helper()
	f := &secureFixture{newFixture(t), cluster, authority, t.TempDir()}
	f.brokers = cluster.Brokers()
	f.write(t, "ca.pem", authority.PEM)
	return f
}

func startSecure(t *testing.T) (*devkafka.Cluster, *devcert.Authority) {
	t.Helper()
	authority := newAuthority(t)
	users := map[string]string{}
	for _, name := range []string{"relay", "denied", "exact", "operator"} {
		users[name] = password
	}
	cluster, err := devkafka.Start(t.Context(), devkafka.Options{Security: &devkafka.Security{Authority: authority, Users: users}})
	if err != nil {
		t.Fatal(err)
	}
	return cluster, authority
}

func newAuthority(t *testing.T) *devcert.Authority {
	t.Helper()
	a, err := devcert.New("authority of a test")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// write puts a file into the fixture's folder and returns its path.
func (f *secureFixture) write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// certificate makes one of the authority, and returns the settings that name it.
func (f *secureFixture) certificate(t *testing.T, authority *devcert.Authority, name string, until time.Duration) []string {
	t.Helper()
	pair, err := authority.Issue(devcert.Request{Name: name, Until: time.Now().Add(until)})
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := pair.Write(f.dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"KAFKA_SSL_CERT=" + cert, "KAFKA_SSL_KEY=" + key}
}

// ca is the setting that trusts the authority.
func (f *secureFixture) ca() string { return "KAFKA_SSL_CA=" + filepath.Join(f.dir, "ca.pem") }

// sasl are the settings of a user.
func (f *secureFixture) sasl(mechanism, user, password string) []string {
	return []string{"KAFKA_BROKERS=" + strings.Join(f.cluster.SASL(), ","), f.ca(), "KAFKA_SASL_MECHANISM=" + mechanism, "KAFKA_SASL_USERNAME=" + user, "KAFKA_SASL_PASSWORD=" + password}
}

// mtls are the settings that the listener with client certificates needs beside one.
func (f *secureFixture) mtls() []string {
	return []string{"KAFKA_BROKERS=" + strings.Join(f.cluster.MTLS(), ","), f.ca()}
}

// run runs the command with these variables.
func (f *secureFixture) run(t *testing.T, variables []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := f.command(t, variables, args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String()+errs.String(), password) {
		t.Errorf("the password is shown:\n%s%s", out.String(), errs.String())
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (f *secureFixture) command(t *testing.T, variables []string, args ...string) *exec.Cmd {
	t.Helper()
	bin, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), append([]string{"DATABASE_URL=" + f.db.URL}, variables...)...)
	return cmd
}

// allowed gives the principal the rules, and waits until the broker goes by them.
func (f *secureFixture) allowed(t *testing.T, principal string, rules ...kafka.ACL) {
	t.Helper()
	for _, rule := range rules {
		f.alter(t, builder(t, principal, rule), true)
	}
}

// withdrawn takes the rules away again.
func (f *secureFixture) withdrawn(t *testing.T, principal string, rules ...kafka.ACL) {
	t.Helper()
	for _, rule := range rules {
		f.alter(t, builder(t, principal, rule), false)
	}
}

func (f *secureFixture) alter(t *testing.T, b *kadm.ACLBuilder, allow bool) {
	t.Helper()
	admin := f.admin(t)
	var errs []error
	if allow {
		results, err := admin.CreateACLs(t.Context(), b)
		errs = append(errs, err)
		for _, r := range results {
			errs = append(errs, r.Err)
		}
	} else {
		results, err := admin.DeleteACLs(t.Context(), b)
		errs = append(errs, err)
		for _, r := range results {
			errs = append(errs, r.Err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the broker knows the rules", func() bool {
		results, err := admin.DescribeACLs(t.Context(), b)
		known := err == nil
		for _, r := range results {
			known = known && (len(r.Described) > 0) == allow
		}
		return known
	})
}

// builder is the rule as the client writes it. Each operation is one of those that the tool knows.
func builder(t *testing.T, principal string, rule kafka.ACL) *kadm.ACLBuilder {
	t.Helper()
	known := map[string]kadm.ACLOperation{"Read": kadm.OpRead, "Write": kadm.OpWrite, "Create": kadm.OpCreate, "Delete": kadm.OpDelete, "DescribeConfigs": kadm.OpDescribeConfigs}
	b := kadm.NewACLs().ResourcePatternType(kadm.ACLPatternLiteral).Allow(principal).AllowHosts()
	switch rule.Resource {
	case kafka.ResourceTopic:
		b = b.Topics(rule.Names...)
	case kafka.ResourceGroup:
		b = b.Groups(rule.Names...)
	default:
		t.Fatalf("a rule of %s", rule.Resource)
	}
	var operations []kadm.ACLOperation
	for _, name := range rule.Operations {
		operation, ok := known[name]
		if !ok {
			t.Fatalf("there is no operation %s", name)
		}
		operations = append(operations, operation)
	}
	return b.Operations(operations...)
}
