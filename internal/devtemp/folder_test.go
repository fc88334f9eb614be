package devtemp

import (
	"os"
	"slices"
	"testing"
)

func TestTMPDIRIsObeyed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	if got := Folder(); got != dir {
		t.Errorf("the folder is %s, want %s", got, dir)
	}
}

func TestTheFolderIsOneOfThoseThatAreSweptAndCanBeWritten(t *testing.T) {
	t.Setenv("TMPDIR", "")
	folder := Folder()
	if all := Folders(); !slices.Contains(all, folder) || !slices.Contains(all, os.TempDir()) {
		t.Errorf("swept are %v, servers are made in %s and %s", all, folder, os.TempDir())
	}
	dir, err := os.MkdirTemp(folder, "outbox-devtemp-test-")
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(dir)
}

// A disk is slow, and what is called free on it is no memory.
func TestAFolderOnADiskHasNoMemory(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"/proc", t.TempDir() + "/missing"} {
		if n := free(folder); n != 0 {
			t.Errorf("%s has %d bytes of memory", folder, n)
		}
	}
}
