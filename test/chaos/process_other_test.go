//go:build integration && unix && !linux

package chaos_test

import "syscall"

// dieWithParent is for Linux alone; elsewhere a relay may outlive tests that were killed.
func dieWithParent() *syscall.SysProcAttr { return nil }
