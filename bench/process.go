package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopLimit is how long a relay may take to end when it is asked to.
const stopLimit = 30 * time.Second

// program is the executable of the product.
type program struct {
	path string
	s    *stand
}

// withProgram builds the product from the repository around the bench and gives it to do.
func (b *bench) withProgram(ctx context.Context, do func(program) error) error {
	dir, err := os.MkdirTemp("", "outbox-bench-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "outbox")
	out, err := exec.CommandContext(ctx, "go", "build", "-C", "..", "-o", path, "./cmd/outbox").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build cmd/outbox (run the bench in its own folder): %w\n%s", err, out)
	}
	return do(program{path, b.stand})
}

// relay is the command `outbox relay` with these arguments; options are added to the database's URL.
func (p program) relay(ctx context.Context, options string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, append([]string{"relay"}, args...)...)
	// Nothing of this process's environment but what the relay is to be measured with: a GOGC or GOMEMLIMIT would change the result.
	cmd.Env = []string{
		"DATABASE_URL=" + p.s.server.URL("postgres") + options,
		"KAFKA_BROKERS=" + strings.Join(p.s.cluster.Brokers(), ","),
	}
	return cmd
}

// process is a relay that runs.
type process struct {
	cmd   *exec.Cmd
	out   *output
	ended chan struct{}
	err   error // of its end; read after ended is closed
}

// start runs the command. The caller must kill the process in the end; that is safe when it has ended.
func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, out: &output{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the relay: %w", err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// alive is nil while the process runs.
func (p *process) alive() error {
	select {
	case <-p.ended:
		return fmt.Errorf("the relay %d has ended: %w\n%s", p.pid(), errors.Join(p.err, errEnded), p.out)
	default:
		return nil
	}
}

var errEnded = errors.New("it should have gone on")

func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %s to the relay %d: %w", s, p.pid(), err)
	}
	return nil
}

// stop asks the relay to end and waits for it.
func (p *process) stop(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return errors.Join(err, p.alive())
	}
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-p.ended:
	case <-limit.C:
		return fmt.Errorf("the relay %d has not ended %s after a SIGTERM\n%s", p.pid(), stopLimit, p.out)
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.err != nil {
		return fmt.Errorf("stop the relay %d: %w\n%s", p.pid(), p.err, p.out)
	}
	return nil
}

// kill ends the process at once, running or frozen, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// output keeps what a process prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write is of io.Writer.
func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
