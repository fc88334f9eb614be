//go:build integration && unix

package chaos_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/test/chaos/proxy"
)

// relayProcess is one place for a relay: a process, started again and again, with its own ways to the database and the brokers.
type relayProcess struct {
	t     *testing.T
	slot  int
	args  []string
	env   []string
	said  *journal
	clock *clock
	// db is the way to the database, kafka are those to the brokers.
	db    *proxy.Proxy
	kafka []*proxy.Proxy

	mu sync.Mutex
	// build is what start starts.
	build string
	cmd   *exec.Cmd
	// ended is closed when the process has ended; expected tells that it was meant to.
	ended    chan struct{}
	expected bool
	// crashes are ends that nobody meant.
	crashes []string
}

// name is what people call it.
func (r *relayProcess) name() string { return fmt.Sprintf("relay %d", r.slot+1) }

func (r *relayProcess) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil {
		return
	}
	cmd := exec.Command(shared.binary(r.t, r.build), r.args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = r.env, r.said, r.said, dieWithParent()
	cmd.ExtraFiles = []*os.File{r.clock.file} // number 3, which only the builds with a shifted clock read
	started, ended := make(chan error), make(chan struct{})
	go r.run(cmd, started, ended)
	if err := <-started; err != nil {
		r.t.Errorf("start %s: %v", r.name(), err)
		return
	}
	r.cmd, r.ended, r.expected = cmd, ended, false
}

// run keeps the thread that has started the process, see dieWithParent.
func (r *relayProcess) run(cmd *exec.Cmd, started chan<- error, ended chan<- struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	started <- err
	if err != nil {
		return
	}
	err = cmd.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(ended)
	if !r.expected {
		r.crashes = append(r.crashes, fmt.Sprintf("%s, process %d, ended by itself: %v", r.name(), cmd.Process.Pid, err))
	}
	r.cmd = nil
}

// end sends a signal and waits for the end. It returns the exit code, -1 after a signal; it does nothing, and returns 0, when nothing runs.
func (r *relayProcess) end(sig syscall.Signal) int {
	r.mu.Lock()
	cmd, ended := r.cmd, r.ended
	r.expected = true
	r.mu.Unlock()
	if cmd == nil {
		return 0
	}
	_ = cmd.Process.Signal(syscall.SIGCONT) // a frozen process hears nothing else
	_ = cmd.Process.Signal(sig)
	select {
	case <-ended:
	case <-time.After(waitLimit):
		r.t.Errorf("%s does not end by %s; its log: %s", r.name(), sig, r.said.path)
		_ = cmd.Process.Kill()
		<-ended
	}
	return cmd.ProcessState.ExitCode()
}

func (r *relayProcess) kill() { r.end(syscall.SIGKILL) }

// stop ends the relay in order. A relay that had to leave something behind says so by its exit code.
func (r *relayProcess) stop() (clean bool) { return r.end(syscall.SIGTERM) == 0 }

// become has the next process be of another build.
func (r *relayProcess) become(build string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.build = build
}

func (r *relayProcess) signal(sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil {
		_ = r.cmd.Process.Signal(sig) // one that has ended is as silent as one that is frozen
	}
}

func (r *relayProcess) unexpected() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.crashes)
}

// newRelay makes the place; nothing runs yet.
func (l *lab) newRelay(slot int, build string, args ...string) *relayProcess {
	l.t.Helper()
	db, err := proxy.Listen(fmt.Sprintf("127.0.0.1:%d", l.server.Port()))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(db.Close)
	r := &relayProcess{
		t: l.t, slot: slot, build: build, db: db, kafka: l.cluster.links[slot],
		said:  newJournal(filepath.Join(l.dir, fmt.Sprintf("relay-%d.log", slot+1))),
		clock: newClock(l.t, filepath.Join(l.dir, fmt.Sprintf("relay-%d.clock", slot+1))),
		// The start may fall into an outage that lasts.
		args: append([]string{"relay", "--lease-ttl", leaseTTL.String(), "--start-timeout", "1h", "--drain-timeout", "5s"}, args...),
		env: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + l.dir,
			"DATABASE_URL=" + fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", db.Addr(), l.database),
			"KAFKA_BROKERS=" + strings.Join(l.cluster.brokers(slot), ","),
		},
	}
	l.t.Cleanup(func() {
		r.kill()
		if err := r.said.ended(); err != nil {
			l.t.Errorf("write the log of %s: %v", r.name(), err)
		}
	})
	shared.binary(l.t, build) // what takes long is not to fall into the run
	return r
}
