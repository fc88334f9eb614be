//go:build unix && !linux

package devbouncer

import "syscall"

// attributes cannot bind the program to this process: a killed test leaves its bouncer running.
func attributes(a *account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: a.credential()}
}
