//go:build unix

package devkafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/outbox-relay/outbox/internal/devtemp"
)

const tempPrefix = "outbox-kafka-"

// makeTemp makes a temporary folder in another one, held by a lock that ends with this process, and removes those whose process is gone: a killed test
// cannot clean up after itself.
func makeTemp(in string) (root string, remove func() error, err error) {
	for _, left := range devtemp.Folders() {
		removeAbandoned(left)
	}
	root, err = os.MkdirTemp(in, tempPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("make folder: %w", err)
	}
	lock, err := tryLock(lockOf(root))
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("lock folder %s: %w", root, err), os.RemoveAll(root))
	}
	return root, func() error {
		defer lock.Close()
		return os.RemoveAll(root)
	}, nil
}

func lockOf(root string) string { return filepath.Join(root, "lock") }

// removeAbandoned does what it can: a folder that it cannot remove is somebody else's.
func removeAbandoned(parent string) {
	locks, err := filepath.Glob(filepath.Join(parent, tempPrefix+"*", "lock"))
	if err != nil {
		return
	}
	for _, path := range locks {
		// A young one may belong to a process that has not locked it yet.
		info, err := os.Stat(path)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := tryLock(path)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(filepath.Dir(path))
		_ = lock.Close()
	}
}

// tryLock takes the lock file, or returns EWOULDBLOCK when another process has it. Closing the file, or the end of the process, gives it back.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// waitLock is tryLock until the lock is free or ctx is done.
func waitLock(ctx context.Context, path string) (*os.File, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		f, err := tryLock(path)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for lock %s, which another process holds: %w", path, ctx.Err())
		case <-tick.C:
		}
	}
}
