//go:build !unix

package devpg

import (
	"errors"
	"os"
	"os/exec"

	"github.com/outbox-relay/outbox/internal/devaccount"
)

var errSystem = errors.New("throw-away servers need Linux or macOS; use a PostgreSQL server of your own")

func detach(*exec.Cmd, *devaccount.Account) {}

var (
	signalFast      = os.Interrupt
	signalImmediate = os.Kill
	signalReload    = os.Interrupt
)

type fileLock struct{}

func (*fileLock) release() {}

func lockFile(string) (*fileLock, error) { return nil, errSystem }

func tryLockFile(string) (*fileLock, bool) { return nil, false }
