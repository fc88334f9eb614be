package devbouncer

import "syscall"

// attributes have the kernel kill the program when this process ends, however that happens.
func attributes(a *account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: a.credential()}
}
