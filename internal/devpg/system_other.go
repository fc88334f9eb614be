//go:build !unix

package devpg

import (
	"errors"
	"os"
	"os/exec"
)

var errSystem = errors.New("throw-away servers need Linux or macOS; use a PostgreSQL server of your own")

type account struct{}

func unprivileged() (*account, error) { return nil, errSystem }

func (*account) own(string) error { return nil }

func (*account) String() string { return "this user" }

func detach(*exec.Cmd, *account) {}

var (
	signalFast      = os.Interrupt
	signalImmediate = os.Kill
)

type fileLock struct{}

func (*fileLock) release() {}

func lockFile(string) (*fileLock, error) { return nil, errSystem }

func tryLockFile(string) (*fileLock, bool) { return nil, false }
