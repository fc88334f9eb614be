//go:build integration && unix

package upgrade_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
)

const archive = "testdata/older.tar.gz"

// open leads to the sources of the older program.
func open(t *testing.T) *tar.Reader {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("read %s: %v", archive, err)
	}
	return tar.NewReader(unpacked)
}

// files returns the files of an archive by name.
func files(t *testing.T, r *tar.Reader) map[string]string {
	t.Helper()
	found := map[string]string{}
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("read the sources of the older program: %v", err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("read %s of the older program: %v", h.Name, err)
		}
		found[h.Name] = string(text)
	}
}

// commit is the commit that the archive says it is of.
func commit(t *testing.T) string {
	t.Helper()
	// git archive writes it in front of the first file.
	h, err := open(t).Next()
	if err != nil {
		t.Fatalf("read %s: %v", archive, err)
	}
	id := h.PAXRecords["comment"]
	if id == "" {
		t.Fatalf("%s names no commit: make it with git archive, as doc.go says", archive)
	}
	return id
}

// Whoever reads the archive need not believe it.
func TestTheOlderSourcesAreThoseOfTheirCommit(t *testing.T) {
	t.Parallel()
	id := commit(t)
	if err := exec.CommandContext(t.Context(), "git", "-C", top, "cat-file", "-e", id+"^{commit}").Run(); err != nil {
		t.Logf("git does not have the commit %s here, so the archive is taken as it is; git fetch --unshallow brings it", id)
		return
	}
	whole, err := exec.CommandContext(t.Context(), "git", "-C", top, "archive", "--format=tar", id).Output()
	if err != nil {
		t.Fatalf("read the files of commit %s: %v", id, err)
	}
	want := files(t, tar.NewReader(bytes.NewReader(whole)))
	for name, text := range files(t, open(t)) {
		if text != want[name] {
			t.Errorf("%s is not what it is in commit %s", name, id)
		}
	}
}
