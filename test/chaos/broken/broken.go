// Package broken makes relays that are wrong in one line each, to prove that the laboratory would notice. A way to be wrong is a text file here:
// pairs of what a source file says and what it says instead. The build takes the changed files by go build's -overlay; nothing in the
// tree is touched. One of them, [Shifted], is not wrong: its change is in Go's own library.
package broken

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

//go:embed *.txt
var files embed.FS

// Shifted is the build whose wall clock is off by as many seconds as its file 3 says just then: eight bytes, the lowest first, two's complement. It
// must work all the same.
const Shifted = "shifted"

// inLibrary is how the path of a file of Go's own library begins.
const inLibrary = "GOROOT/"

// Names lists the ways to be wrong.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // an embedded folder can be read
	}
	var names []string
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".txt"); name != Shifted {
			names = append(names, name)
		}
	}
	return names
}

// Reason says in words what is wrong.
func Reason(name string) (string, error) {
	a, err := read(name)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(a.Comment)), nil
}

// Overlay writes the changed files into dir, and returns the path of the file for -overlay. top is the module's folder; several names are changes one
// after the other. An old text that is not found exactly once is an error: the code has moved on, and so must the description.
func Overlay(top, dir string, names ...string) (string, error) {
	changed := map[string]string{}
	for _, name := range names {
		if err := apply(changed, name, top); err != nil {
			return "", fmt.Errorf("break the build as %s: %w", name, err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the overlay's folder: %w", err)
	}
	replace := map[string]string{}
	for i, original := range slices.Sorted(maps.Keys(changed)) {
		replacement, err := filepath.Abs(filepath.Join(dir, fmt.Sprintf("%d-%s", i, filepath.Base(original))))
		if err != nil {
			return "", fmt.Errorf("name the file that replaces %s: %w", original, err)
		}
		if err := os.WriteFile(replacement, []byte(changed[original]), 0o644); err != nil {
			return "", fmt.Errorf("write the overlay: %w", err)
		}
		replace[original] = replacement
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, list, 0o644)
}

func read(name string) (*txtar.Archive, error) {
	text, err := files.ReadFile(name + ".txt")
	if err != nil {
		return nil, fmt.Errorf("there is no way to be wrong called %q: %w", name, err)
	}
	return txtar.Parse(text), nil
}

// apply changes texts by their absolute paths, and reads those that are not there yet. A description is a list of sections, "-- path old --" and
// after it "-- path new --".
func apply(changed map[string]string, name, top string) error {
	a, err := read(name)
	if err != nil {
		return err
	}
	if len(a.Files) == 0 {
		return fmt.Errorf("the description changes nothing")
	}
	for pair := range slices.Chunk(a.Files, 2) {
		path, ok := strings.CutSuffix(pair[0].Name, " old")
		if len(pair) != 2 || !ok || pair[1].Name != path+" new" {
			return fmt.Errorf("section %q: write pairs of sections, PATH old and PATH new", pair[0].Name)
		}
		original, err := locate(path, top)
		if err != nil {
			return err
		}
		if changed[original] == "" {
			text, err := os.ReadFile(original)
			if err != nil {
				return err
			}
			changed[original] = string(text)
		}
		old := string(pair[0].Data)
		if n := strings.Count(changed[original], old); n != 1 {
			return fmt.Errorf("%s says %d times what is to be replaced, want once; write the description anew for the code of today:\n%s", path, n, old)
		}
		changed[original] = strings.Replace(changed[original], old, string(pair[1].Data), 1)
	}
	return nil
}

// locate returns the absolute path of a file of the module, or of Go's own library.
func locate(path, top string) (string, error) {
	inside, library := strings.CutPrefix(path, inLibrary)
	if !library {
		return filepath.Abs(filepath.Join(top, path))
	}
	root, err := exec.CommandContext(context.Background(), "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("ask where Go's library is: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), inside), nil
}
