//go:build unix

package devpg

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A child that is being started has copies of all descriptors until its exec; a copy here stands for it.
func TestAReleasedLockIsFreeWhileAChildIsBeingStarted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held, err := lockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	child, err := syscall.Dup(int(held.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(child)
	if _, ok := tryLockFile(path); ok {
		t.Fatal("a lock that is held was taken")
	}
	held.release()
	again, ok := tryLockFile(path)
	if !ok {
		t.Fatal("the lock stayed with the child's copy of the descriptor")
	}
	again.release()
}
