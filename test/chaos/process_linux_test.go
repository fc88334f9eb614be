//go:build integration

package chaos_test

import "syscall"

// dieWithParent has the kernel kill the child when the thread that has started it ends.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
