//go:build unix

package cli

import (
	"io/fs"
	"syscall"
)

// isExposed tells that others than its owner, or for root's files its group, may read or change a key. libpq draws the line there.
func isExposed(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && stat.Uid == 0 {
		return info.Mode().Perm()&0o037 != 0
	}
	return info.Mode().Perm()&0o077 != 0
}
