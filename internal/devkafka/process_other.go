//go:build unix && !linux

package devkafka

import "syscall"

// dieWithParent can do nothing here: a killed test leaves its brokers running.
func dieWithParent() *syscall.SysProcAttr { return nil }
