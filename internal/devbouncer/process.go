//go:build unix

package devbouncer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// process is one run of the program.
type process struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when the program has ended
}

// launch runs the program with its output added to the log.
func (b *Bouncer) launch() (*process, error) {
	log, err := os.OpenFile(b.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: b.program.command(filepath.Join(b.dir, "bouncer.ini")), gone: make(chan struct{})}
	p.cmd.Dir = b.dir
	p.cmd.Env = []string{"LC_ALL=C", "TZ=UTC"}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = attributes(b.account)
	started := make(chan error)
	go p.run(log, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("run %s as %s: %w", p.cmd.Path, b.account, err)
	}
	return p, nil
}

// run keeps the thread that starts the program until the program has ended: on Linux the death of that thread, not of the process, is what
// kills the program.
func (p *process) run(log *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer log.Close()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // how it ended is in its log
	close(p.gone)
}

func (p *process) kill() {
	// It can only fail for a program that has ended.
	_ = p.cmd.Process.Kill()
	<-p.gone
}
