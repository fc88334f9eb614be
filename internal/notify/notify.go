// Package notify tells a service manager, by systemd's protocol, how a service is: datagrams to the socket that NOTIFY_SOCKET names, with lines such as READY=1.
package notify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// What a service says. [Status] makes the line that people read.
const (
	// Ready ends the start.
	Ready = "READY=1"
	// Stopping begins the stop.
	Stopping = "STOPPING=1"
	// Watchdog shows that the service works. It must come within the time of [Manager.Watchdog].
	Watchdog = "WATCHDOG=1"
)

// Status is the line with one line of text for people, shown by `systemctl status`.
func Status(text string) string {
	return "STATUS=" + strings.ReplaceAll(text, "\n", "; ")
}

// Manager is the service manager that started this process. Make one with [New]. The zero value is none, and takes everything that is said.
type Manager struct {
	socket   string
	watchdog time.Duration
}

// New finds the manager by the variables NOTIFY_SOCKET, WATCHDOG_USEC (in microseconds) and WATCHDOG_PID; variable returns "" for one that is not set. pid is the
// process's own: a watchdog that is meant for another process does not count. It connects to nothing. Without NOTIFY_SOCKET there is no manager, and no error.
func New(variable func(name string) string, pid int) (Manager, error) {
	m := Manager{socket: variable("NOTIFY_SOCKET")}
	if m.socket == "" {
		return Manager{}, nil
	}
	if m.socket[0] != '/' && m.socket[0] != '@' {
		return Manager{}, fmt.Errorf("environment variable NOTIFY_SOCKET: %q: want the path of a Unix socket, or @ and an abstract name; systemd sets it, leave it out elsewhere", m.socket)
	}
	var err error
	m.watchdog, err = watchdog(variable, pid)
	return m, err
}

func watchdog(variable func(name string) string, pid int) (time.Duration, error) {
	text := variable("WATCHDOG_USEC")
	if other := variable("WATCHDOG_PID"); text == "" || other != "" && other != strconv.Itoa(pid) {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > int64(24*time.Hour/time.Microsecond) {
		return 0, fmt.Errorf("environment variable WATCHDOG_USEC: %q: want microseconds, at most a day; systemd sets it from WatchdogSec, leave it out elsewhere", text)
	}
	return time.Duration(n) * time.Microsecond, nil
}

// Present tells that there is a manager.
func (m Manager) Present() bool { return m.socket != "" }

// Watchdog is the longest time that may pass between two [Watchdog] lines before the manager ends the process; zero when it does not look.
func (m Manager) Watchdog() time.Duration { return m.watchdog }

// sendTimeout bounds how long a manager that reads nothing can hold the service up.
const sendTimeout = time.Second

// Tell sends the lines in one datagram. It waits a second at most.
func (m Manager) Tell(ctx context.Context, lines ...string) error {
	if !m.Present() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	// The name of an abstract socket begins with @ here too.
	conn, err := (&net.Dialer{}).DialContext(ctx, "unixgram", m.socket)
	if err != nil {
		return fmt.Errorf("connect to the service manager: %w", err)
	}
	deadline, _ := ctx.Deadline()
	err = conn.SetWriteDeadline(deadline)
	if err == nil {
		_, err = conn.Write([]byte(strings.Join(lines, "\n")))
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	return nil
}
