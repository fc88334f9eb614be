package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/outbox-relay/outbox/internal/await"
)

// newPipe makes a pipe in the file system.
func newPipe(t *testing.T, path string) {
	t.Helper()
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

// feed writes into a pipe when somebody has come to read it.
func feed(t *testing.T, path, content string) (done <-chan struct{}) {
	t.Helper()
	written := make(chan struct{})
	go func() {
		defer close(written)
		// Opening waits for the reader. One that has read enough may go before all is written.
		if w, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			_, _ = w.WriteString(content)
			_ = w.Close()
		}
	}()
	return written
}

func TestSettingsAndSecretsComeByPipes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "outbox.yaml"), filepath.Join(dir, "password")
	newPipe(t, file)
	newPipe(t, secret)
	feed(t, file, "brokers: h:1\nsettle: delete\n")
	feed(t, secret, "hunter2\n")
	c := mustLoad(t, given{args: []string{"--config=" + file}, env: Environment{"OUTBOX_DATABASE_PASSWORD_FILE": secret}})
	if s := c.Sources[0]; s.Settle != "delete" || string(s.DatabasePassword) != "hunter2" || s.Rotating("database-password") != nil {
		t.Errorf("got %+v", s)
	}
}

func TestAPipeThatNobodyWritesToIsGivenUpWhenTheProcessIsToStop(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	newPipe(t, path)
	for name, g := range map[string]given{
		"settings": {args: []string{"--config=" + path}},
		"secret":   {env: Environment{"OUTBOX_DATABASE_PASSWORD_FILE": path}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
			Flags(fs)
			_ = fs.Parse(g.args)
			_, err := Load(ctx, fs, g.env)
			ended <- err
		}()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestASecretOfAPipeThatIsTooLargeIsRefusedAndNotCut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	newPipe(t, path)
	done := feed(t, path, strings.Repeat("x", maxSecretFile+1))
	_, err := load(t, given{env: Environment{"OUTBOX_DATABASE_PASSWORD_FILE": path}})
	<-done
	if err == nil || !strings.Contains(err.Error(), path+" has more than 65536 bytes: that is no password") {
		t.Errorf("got %v", err)
	}
	if _, err := load(t, given{env: Environment{"OUTBOX_DATABASE_PASSWORD_FILE": "/dev/zero"}}); err == nil || !strings.Contains(err.Error(), "that is no password") {
		t.Errorf("got %v", err)
	}
}

func TestASecretsFileThatBecomesAPipeKeepsWhatWasReadLast(t *testing.T) {
	t.Parallel()
	path := write(t, "password", "first\n")
	c := mustLoad(t, given{file: "brokers: h:1\ndatabase-password-file: " + path + "\n"})
	rotating := c.Sources[0].Rotating("database-password")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	newPipe(t, path)
	read := make(chan Secret)
	go func() { read <- rotating() }()
	if got := <-read; string(got) != "first" {
		t.Errorf("got %q", string(got))
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the file is read when it is one again", func() bool { return string(rotating()) == "second" })
}

func TestAFileThatIsTooLargeIsNoFileOfSettings(t *testing.T) {
	t.Parallel()
	_, err := load(t, given{file: strings.Repeat("#", maxFile+1), env: Environment{"KAFKA_BROKERS": "h:1"}})
	if err == nil || !strings.HasSuffix(err.Error(), "outbox.yaml has more than 1048576 bytes: that is no file of settings") {
		t.Errorf("got %v", err)
	}
}

func TestOfManyUnknownSettingsTheFirstAreTold(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 2 * mostUnknown {
		fmt.Fprintf(&text, "unknown-%d: x\n", i)
	}
	_, err := load(t, given{file: text.String(), env: Environment{"KAFKA_BROKERS": "h:1"}})
	if err == nil || strings.Count(err.Error(), "\n") != mostUnknown || !strings.Contains(err.Error(), "outbox.yaml:101: and more settings that are unknown") {
		t.Errorf("got %v", err)
	}
}
