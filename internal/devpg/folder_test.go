package devpg

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/devtemp"
)

func TestSweepRemovesOnlyOldFoldersOfProcessesThatAreGone(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	make := func(name string, locked bool) {
		t.Helper()
		path := filepath.Join(temp, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		lock, err := lockFile(filepath.Join(path, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		if locked {
			t.Cleanup(lock.release)
		} else {
			lock.release()
		}
	}
	make(folderPrefix+"live", true)
	make(folderPrefix+"gone", false)
	make("other", false)

	sweepFolders(temp, time.Now())
	if got := names(t, temp); len(got) != 3 {
		t.Errorf("young folders were removed: %v", got)
	}
	sweepFolders(temp, time.Now().Add(time.Hour))
	if got := names(t, temp); len(got) != 2 || got[0] != "other" || got[1] != folderPrefix+"live" {
		t.Errorf("left are %v, want the live one and the other", got)
	}
}

// What a benchmark measures on a disk must be on one.
func TestADurableServerIsNotInMemory(t *testing.T) {
	t.Parallel()
	if got := (Options{Durable: true}).temp(); got != os.TempDir() {
		t.Errorf("a durable server is in %s, want %s", got, os.TempDir())
	}
	if got := (Options{}).temp(); got != devtemp.Folder() {
		t.Errorf("another one is in %s, want %s", got, devtemp.Folder())
	}
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
