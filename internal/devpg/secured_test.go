package devpg_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devcert"
	"github.com/outbox-relay/outbox/internal/devpg"
)

func TestAServerTalksTLSAndTakesANewCertificateWhileItRuns(t *testing.T) {
	t.Parallel()
	first, second := authority(t), authority(t)
	server := start(t, devpg.Options{TLS: &devpg.TLS{Pair: issued(t, first)}, Rules: []string{"hostssl all all 127.0.0.1/32 trust"}})
	root := filepath.Join(t.TempDir(), "root.crt")
	secured := func() error {
		conn, err := pgx.Connect(t.Context(), fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=verify-full&sslrootcert=%s", server.Port(), root))
		if err != nil {
			return err
		}
		return conn.Close(t.Context())
	}
	trust := func(a *devcert.Authority) {
		if err := os.WriteFile(root, a.PEM, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust(second)
	if err := secured(); err == nil {
		t.Error("a certificate of another authority was believed")
	}
	trust(first)
	if err := secured(); err != nil {
		t.Error(err)
	}
	if err := server.SetTLS(devpg.TLS{Pair: issued(t, second)}); err != nil {
		t.Fatal(err)
	}
	trust(second)
	await.Until(t, "the new certificate is shown", func() bool { return secured() == nil })
}

func authority(t *testing.T) *devcert.Authority {
	t.Helper()
	a, err := devcert.New("authority of a test")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issued(t *testing.T, a *devcert.Authority) devcert.Pair {
	t.Helper()
	pair, err := a.Issue(devcert.Request{Name: "server", Hosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
