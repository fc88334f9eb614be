package devpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

var errPortTaken = errors.New("its port was taken by another process")

// process is one run of the server program.
type process struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when the program has ended
	log  *os.File
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// running is false for a server that was never started, and for one that ended by itself.
func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// wait collects the program's end. It is the one goroutine of a running server.
func (p *process) wait() {
	p.cmd.Wait()
	p.log.Close()
	close(p.gone)
}

// end sends the signal and waits until the program is gone. When the context ends, or it takes too long, harder signals follow.
func (p *process) end(ctx context.Context, signal os.Signal) {
	if p.send(ctx, signal) || p.send(context.Background(), signalImmediate) {
		return
	}
	p.cmd.Process.Kill()
	<-p.gone
}

// send tells whether the program has ended by the signal.
func (p *process) send(ctx context.Context, signal os.Signal) bool {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	p.cmd.Process.Signal(signal)
	select {
	case <-p.gone:
		return true
	case <-ctx.Done():
		return false
	}
}

// initialize makes an empty cluster, unless the folder holds one.
func (s *Server) initialize(ctx context.Context) error {
	if _, err := os.Stat(s.folder.data() + "/PG_VERSION"); err == nil {
		return nil
	}
	locale := "C.UTF-8"
	if runtime.GOOS == "darwin" {
		locale = "C" // macOS has no C.UTF-8 before its newest releases
	}
	cmd := exec.CommandContext(ctx, s.bin.program("initdb"), "-D", s.folder.data(), "-U", superuser, "-A", "trust",
		"-E", "UTF8", "--locale="+locale, "--no-sync", "--no-instructions")
	s.environment(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make a PostgreSQL cluster with %s as %s: %w\n%s", cmd.Path, s.account, err, out)
	}
	return nil
}

// environment runs the command as the server's user, in a folder that this user can enter, free of settings that are meant for others.
func (s *Server) environment(cmd *exec.Cmd) {
	cmd.Dir = s.folder.data()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + s.folder.data()}
	detach(cmd, s.account)
}

// launch runs the server program under the eye of the watchdog.
func (s *Server) launch() (*process, error) {
	log, err := os.OpenFile(s.folder.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.bin.program("postgres"), s.arguments()...)
	s.environment(cmd)
	cmd.Stderr = log
	if s.options.Log != nil {
		cmd.Stderr = io.MultiWriter(log, s.options.Log)
		cmd.WaitDelay = stopLimit
	}
	if err := cmd.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("run it as %s: %w", s.account, err)
	}
	p := &process{cmd: cmd, gone: make(chan struct{}), log: log}
	go p.wait()
	if err := s.watchdog.guard(p.pid()); err != nil {
		p.end(context.Background(), signalImmediate)
		return nil, fmt.Errorf("tell the watchdog: %w", err)
	}
	return p, nil
}

func (s *Server) arguments() []string {
	params := map[string]string{
		"listen_addresses":          "127.0.0.1",
		"unix_socket_directories":   "",
		"port":                      fmt.Sprint(s.port),
		"max_connections":           "200",
		"max_prepared_transactions": "20",
		"shared_buffers":            "64MB",
		"timezone":                  "UTC",
		"log_timezone":              "UTC",
	}
	if !s.options.Durable {
		params["fsync"] = "off"
		params["full_page_writes"] = "off"
	}
	if s.options.TLS != nil {
		params["ssl"] = "on"
		maps.Copy(params, tlsFiles)
		if s.options.TLS.ClientCA == nil {
			delete(params, "ssl_ca_file")
		}
	}
	for name, value := range s.options.Params {
		params[name] = value
	}
	args := []string{"-D", s.folder.data()}
	names := make([]string, 0, len(params))
	for name := range params {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		args = append(args, "-c", name+"="+params[name])
	}
	return args
}

// waitReady returns when the server answers, and an error when it has ended instead.
func (s *Server) waitReady(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.gone:
			return s.explainEnd()
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w (%w)\n%s", err, ctx.Err(), s.logTail())
		case <-tick.C:
		}
	}
}

// ask proves that the server on the port is this one.
func (s *Server) ask(ctx context.Context) error {
	c, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	var dir string
	if err := c.QueryRow(ctx, "SHOW data_directory").Scan(&dir); err != nil {
		return err
	}
	if dir != s.folder.data() {
		return errPortTaken
	}
	return nil
}

func (s *Server) explainEnd() error {
	tail := s.logTail()
	if bytes.Contains(tail, []byte("Address already in use")) {
		return errPortTaken
	}
	return fmt.Errorf("it ended at once; its log says:\n%s", tail)
}

func (s *Server) logTail() []byte {
	const size = 4096
	log, err := os.ReadFile(s.folder.log())
	if err != nil {
		return []byte(err.Error())
	}
	return log[max(0, len(log)-size):]
}
