package devkafka

import "syscall"

// dieWithParent has the kernel kill the child when its parent ends, however that happens.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
