//go:build unix && !linux

package devbouncer

import (
	"syscall"

	"github.com/outbox-relay/outbox/internal/devaccount"
)

// attributes cannot bind the program to this process: a killed test leaves its bouncer running.
func attributes(a *devaccount.Account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: a.Credential()}
}
