package devpg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/internal/devaccount"
)

// superuser owns every cluster that this package makes; it needs no password.
const superuser = "postgres"

// stopLimit is how long an ordered stop may take before the server is ended without mercy.
const stopLimit = 20 * time.Second

// Server is one PostgreSQL server. Its methods may be called from any goroutine.
type Server struct {
	options  Options
	bin      binaries
	account  *devaccount.Account
	folder   *folder
	watchdog *watchdog
	port     int

	mu      sync.Mutex // guards process, and orders starting and stopping
	process *process   // nil while the server is stopped
}

// URL is the address of a database on the server, for its superuser, over TCP on 127.0.0.1. It stays the same over restarts.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User(superuser),
		Host:     fmt.Sprintf("127.0.0.1:%d", s.port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Version is the server's version, such as "15.13".
func (s *Server) Version() string { return s.bin.version }

// Major is the server's major version, such as 15.
func (s *Server) Major() int { return s.bin.major }

// Port is the TCP port on 127.0.0.1. It stays the same over restarts.
func (s *Server) Port() int { return s.port }

// PID is the process id of the server; 0 while it is stopped.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.pid()
}

// LogFile is the path of the file that the server logs to.
func (s *Server) LogFile() string { return s.folder.log() }

// Start runs a stopped server again, on the same data and port, and returns when it answers. Starting a running one does nothing.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process.running() {
		return nil
	}
	p, err := s.launch()
	if err != nil {
		return fmt.Errorf("start PostgreSQL %s: %w", s.bin.version, err)
	}
	if err := s.waitReady(ctx, p); err != nil {
		p.end(context.Background(), signalImmediate)
		return errors.Join(fmt.Errorf("start PostgreSQL %s: %w", s.bin.version, err), s.watchdog.guard(0))
	}
	s.process = p
	return nil
}

// Stop ends the server in order: open transactions are rolled back and the data is left clean. Stopping a stopped one does nothing.
func (s *Server) Stop(ctx context.Context) error { return s.end(ctx, signalFast) }

// Kill ends the server at once, as a crash does: the next start goes through recovery. It returns when the server is gone.
func (s *Server) Kill() error { return s.end(context.Background(), signalImmediate) }

// Restart stops the server in order and starts it again on the same data and port.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Cleanup ends the server and removes its folder, unless [Options].Dir named it. The server cannot be used any more.
func (s *Server) Cleanup() error {
	err := s.Kill()
	if s.watchdog != nil {
		s.watchdog.end()
	}
	return errors.Join(err, s.folder.close())
}

func (s *Server) end(ctx context.Context, signal os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	s.process.end(ctx, signal)
	s.process = nil
	if err := s.watchdog.guard(0); err != nil {
		return fmt.Errorf("tell the watchdog that PostgreSQL has stopped: %w", err)
	}
	return nil
}
