//go:build unix

package devkafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// errPortTaken tells that another process was quicker to bind a port.
var errPortTaken = errors.New("port is taken")

// Node is one Kafka process, broker and controller. Its methods are safe for concurrent use; each but Pause and Continue waits until
// what it asks for has happened.
type Node struct {
	id                   int
	dir                  string
	port, controllerPort int
	// saslPort and mtlsPort are of listeners with TLS; nobody listens there without security.
	saslPort, mtlsPort int
	security           *Security // nil without
	clusterID, dirID   string
	voters             string // "" for a single node
	tools              tools
	log                *slog.Logger

	mu   sync.Mutex
	proc *process // guarded by mu; nil when not running
}

// ID returns the node's id in the cluster: 1, 2 or 3.
func (n *Node) ID() int { return n.id }

// Addr returns the broker's address, host:port. It stays the same over restarts.
func (n *Node) Addr() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }

// Kill ends the node at once, as a crash does (SIGKILL). A node that is not running is left alone.
func (n *Node) Kill() error { return n.end(syscall.SIGKILL) }

// Stop shuts the node down in an orderly way (SIGTERM); after a minute it is killed, which is an error.
func (n *Node) Stop() error { return n.end(syscall.SIGTERM) }

// Pause freezes the node (SIGSTOP): its connections stay open and nothing answers.
func (n *Node) Pause() error { return n.signal(syscall.SIGSTOP) }

// Continue lets a paused node go on (SIGCONT).
func (n *Node) Continue() error { return n.signal(syscall.SIGCONT) }

// Restart starts a node that was killed or stopped, with its old address and data, and returns when it answers. A running node is stopped first.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Stop(); err != nil {
		return err
	}
	if err := n.start(); err != nil {
		return err
	}
	return n.waitReady(ctx, 1)
}

func (n *Node) controllerAddr() string { return fmt.Sprintf("127.0.0.1:%d", n.controllerPort) }

func (n *Node) file(name string) string { return filepath.Join(n.dir, name) }

// logFile is beside the node's folder, so that it is easily found.
func (n *Node) logFile() string { return n.dir + ".log" }

func (n *Node) formatAndStart(ctx context.Context) error {
	args := []string{"-cp", n.tools.libs + "/*", "kafka.tools.StorageTool", "format", "-t", n.clusterID, "-c", n.file("server.properties")}
	if n.voters == "" {
		args = append(args, "--standalone")
	} else {
		args = append(args, "--initial-controllers", n.voters)
	}
	if n.security != nil {
		args = append(args, n.security.scramUsers()...)
	}
	out, err := exec.CommandContext(ctx, n.tools.java, append(jvmFlags(n.file("log4j2.properties")), args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("format node %d: %w: %s", n.id, err, explain(string(out)))
	}
	return n.start()
}

func (n *Node) start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil {
		return fmt.Errorf("start node %d: it is running", n.id)
	}
	args := append(jvmFlags(n.file("log4j2.properties")), "-Xms256m", "-Xmx512m", "-cp", n.tools.libs+"/*", "kafka.Kafka", n.file("server.properties"))
	proc, err := startProcess(n.logFile(), n.tools.java, args...)
	if err != nil {
		return fmt.Errorf("start node %d: %w", n.id, err)
	}
	n.log.Info("node started", "node", n.id, "address", n.Addr(), "log", n.logFile())
	n.proc = proc
	return nil
}

// jvmFlags make a JVM that starts fast and lives short.
func jvmFlags(log4j string) []string {
	return []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.configurationFile=" + log4j}
}

func (n *Node) signal(sig os.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil {
		return fmt.Errorf("signal node %d with %s: it is not running; Restart it first", n.id, sig)
	}
	return n.proc.cmd.Process.Signal(sig)
}

// end sends the signal and waits for the process.
func (n *Node) end(sig os.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil {
		return nil
	}
	defer func() { n.proc = nil }()
	// A paused process would take the signal only when it goes on.
	_ = n.proc.cmd.Process.Signal(syscall.SIGCONT)
	if err := n.proc.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal node %d with %s: %w", n.id, sig, err)
	}
	select {
	case <-n.proc.exited:
		return nil
	case <-time.After(time.Minute):
	}
	_ = n.proc.cmd.Process.Kill()
	<-n.proc.exited
	return fmt.Errorf("stop node %d: it took more than a minute and was killed; the end of its log: %s", n.id, n.logTail())
}

func (n *Node) running() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc
}

// exitError explains why the node ended by itself.
func (n *Node) exitError() error {
	tail := n.logTail()
	if strings.Contains(tail, "Address already in use") {
		return fmt.Errorf("node %d: %w: %s", n.id, errPortTaken, tail)
	}
	return fmt.Errorf("node %d ended by itself; the end of its log, %s: %s", n.id, n.logFile(), explain(tail))
}

func (n *Node) logTail() string {
	text, err := os.ReadFile(n.logFile())
	if err != nil {
		return err.Error()
	}
	return lastLines(string(text), 15)
}

// explain adds what to do to what Java says.
func explain(output string) string {
	output = lastLines(output, 15)
	if strings.Contains(output, "UnsupportedClassVersionError") {
		return output + "\nthis Java is too old; install Java 17 or newer, or set JAVA_HOME"
	}
	return output
}
