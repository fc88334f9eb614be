package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/outbox-relay/outbox/internal/devcert"
)

// replaceByPipe puts a pipe that nobody writes to where a file was.
func replaceByPipe(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// Whoever still waits for a writer is let go by one that comes and goes.
	t.Cleanup(func() {
		if w, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = w.Close()
		}
	})
}

// The driver would wait for them for ever, and with it the stop.
func TestCertificatesThatBecomePipesHoldNoConnection(t *testing.T) {
	t.Parallel()
	authority := newAuthority(t)
	pair := issue(t, authority, devcert.Request{Name: "me"})
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	root, cert, key := file("root", authority.PEM), file("cert", pair.Cert), file("key", pair.Key)
	target := target{url: "postgres://me@h/d?sslmode=verify-full&sslrootcert=" + root + "&sslcert=" + cert + "&sslkey=" + key, table: "t", urlName: "DATABASE_URL"}
	cfg, err := target.parse(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.BeforeConnect(t.Context(), cfg.ConnConfig); err != nil {
		t.Errorf("files as they should be: %v", err)
	}
	replaceByPipe(t, root)
	if err := cfg.BeforeConnect(t.Context(), cfg.ConnConfig); err != nil || cfg.ConnConfig.TLSConfig.RootCAs == nil {
		t.Errorf("the authorities are as they were: %v", err)
	}
	replaceByPipe(t, cert)
	if err := cfg.BeforeConnect(t.Context(), cfg.ConnConfig); err == nil || err.Error() != "read sslcert and sslkey: "+cert+" is no regular file: it cannot be read again" {
		t.Errorf("a certificate that the driver would wait for: %v", err)
	}
}

func TestACommandThatWaitsForAPipeHearsTheStop(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	replaceByPipe(t, path)
	for name, env := range map[string][]string{
		"settings":    {"OUTBOX_CONFIG=" + path},
		"password":    {"DATABASE_URL=postgres://me@h/d", "OUTBOX_DATABASE_PASSWORD_FILE=" + path},
		"authorities": {"DATABASE_URL=postgres://me@h/d?sslmode=verify-full&sslrootcert=" + path},
	} {
		for _, command := range []string{"relay", "status", "doctor"} {
			ctx, stop := context.WithCancel(t.Context())
			var stderr bytes.Buffer
			ended := make(chan int, 1)
			go func() {
				ended <- Run(ctx, []string{command}, strings.NewReader(""), &bytes.Buffer{}, &stderr, append(env, "KAFKA_BROKERS=h:1"))
			}()
			stop()
			if code := <-ended; code == exitOK || !strings.Contains(stderr.String(), "context canceled") {
				t.Errorf("%s by %s ended with %d: %s", name, command, code, stderr.String())
			}
		}
	}
}
