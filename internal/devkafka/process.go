//go:build unix

package devkafka

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// process is a running child.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the child has ended and was waited for
}

// startProcess starts the command with its output added to a file.
func startProcess(logFile, name string, args ...string) (*process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	p := &process{cmd: exec.Command(name, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = dieWithParent()
	started := make(chan error)
	go p.run(out, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	return p, nil
}

// run keeps the thread that starts the child until the child has ended: on Linux the death of that thread, not of the process, is what
// kills the child.
func (p *process) run(out *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer out.Close()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // how it ended is in its log
	close(p.exited)
}
