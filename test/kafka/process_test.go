//go:build integration && unix

package kafka_test

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/outbox-relay/outbox/internal/await"
)

// process is the command as a process of its own.
type process struct {
	log *await.Journal
	// end sends a signal, once, and returns when the process has ended, with its exit code; -1 after SIGKILL.
	end func(syscall.Signal) int
}

// startProcess starts the command with the database and the brokers in its environment, until end is called or the test ends.
func (f *fixture) startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	bin, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{log: &await.Journal{Out: t.Output()}}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+f.db.URL, "KAFKA_BROKERS="+strings.Join(f.brokers, ","))
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	p.end = func(sig syscall.Signal) int {
		once.Do(func() {
			_ = cmd.Process.Signal(sig)
			_ = cmd.Wait() // the exit code tells
		})
		return cmd.ProcessState.ExitCode()
	}
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}
