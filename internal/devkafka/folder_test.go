//go:build unix

package devkafka

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func oldFolder(t *testing.T, parent, name string) string {
	t.Helper()
	dir := filepath.Join(parent, tempPrefix+name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lockOf(dir), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(lockOf(dir), hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOnlyFoldersOfEndedProcessesAreRemoved(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	abandoned, used, young := oldFolder(t, parent, "abandoned"), oldFolder(t, parent, "used"), oldFolder(t, parent, "young")
	lock, err := tryLock(lockOf(used))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := os.Chtimes(lockOf(young), time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	removeAbandoned(parent)
	for dir, want := range map[string]bool{abandoned: false, used: true, young: true} {
		if got := exists(dir); got != want {
			t.Errorf("folder %s exists: got %t, want %t", filepath.Base(dir), got, want)
		}
	}
}

func TestATemporaryFolderIsRemovedAndAGivenOneStays(t *testing.T) {
	t.Parallel()
	for dir, stays := range map[string]bool{"": false, filepath.Join(t.TempDir(), "given"): true} {
		root, remove, err := makeRoot(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := remove(); err != nil {
				t.Errorf("remove: %v", err)
			}
		}
		if got := exists(root); got != stays {
			t.Errorf("folder %q exists afterwards: got %t, want %t", root, got, stays)
		}
	}
}
