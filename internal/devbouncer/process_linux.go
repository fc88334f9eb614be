package devbouncer

import (
	"syscall"

	"github.com/outbox-relay/outbox/internal/devaccount"
)

// attributes have the kernel kill the program when this process ends, however that happens.
func attributes(a *devaccount.Account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: a.Credential()}
}
