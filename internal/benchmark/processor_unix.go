//go:build unix

package benchmark

import (
	"syscall"
	"time"
)

// processorTime is what this process has used; -1 where the system does not tell.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return -1
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
