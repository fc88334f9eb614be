//go:build unix

package devpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/outbox-relay/outbox/internal/devaccount"
)

// detach gives the command a session of its own, so that Ctrl-C in a terminal reaches only this process, and the account.
func detach(cmd *exec.Cmd, a *devaccount.Account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: a.Credential()}
}

// The signals that end a server: fast, immediate, and without mercy.
const (
	signalFast      = syscall.SIGINT
	signalImmediate = syscall.SIGQUIT
	// signalReload makes the server read its files again.
	signalReload = syscall.SIGHUP
)

// lockFile makes the file and waits until no other process holds it locked. The lock ends with this process at the latest.
func lockFile(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &fileLock{f}, nil
}

// tryLockFile locks an existing file that no other process holds.
func tryLockFile(path string) (l *fileLock, ok bool) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, false
	}
	if err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, false
	}
	return &fileLock{f}, true
}

// fileLock is a lock that this process holds.
type fileLock struct{ file *os.File }

// release gives the lock up. Closing the file alone would not: a child that is being started has a copy of the descriptor from its fork
// to its exec, and keeps the lock for as long.
func (l *fileLock) release() {
	_ = flock(l.file, syscall.LOCK_UN) // closing the file is what is left to try
	l.file.Close()
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
