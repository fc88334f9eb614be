//go:build unix

package devpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that the server runs as; nil is the user of this process.
type account struct {
	name     string
	uid, gid uint32
}

// unprivileged chooses the account: the server refuses to run as root, so root gives it to another user.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return &account{name, uint32(uid), uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody; add one, or run as another user")
}

func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

func (a *account) String() string {
	if a == nil {
		return "this user"
	}
	return "user " + a.name
}

// detach gives the command a session of its own, so that Ctrl-C in a terminal reaches only this process, and the account.
func detach(cmd *exec.Cmd, a *account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
}

// The signals that end a server: fast, immediate, and without mercy.
const (
	signalFast      = syscall.SIGINT
	signalImmediate = syscall.SIGQUIT
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
