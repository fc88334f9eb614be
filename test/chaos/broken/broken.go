// Package broken makes relays that are wrong in one line each, to prove that the laboratory would notice. A way to be wrong is a text file here:
// pairs of what a source file says and what it says instead. The build takes the changed files by go build's -overlay; nothing in the
// tree is touched.
package broken

import (
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

//go:embed *.txt
var files embed.FS

// Names lists the ways to be wrong.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // an embedded folder can be read
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".txt"))
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

// Overlay writes the changed files into dir, and returns the path of the file for -overlay. top is the module's folder. An old text that is
// not found exactly once is an error: the code has moved on, and so must the description.
func Overlay(name, top, dir string) (string, error) {
	changed, err := apply(name, top)
	if err != nil {
		return "", fmt.Errorf("break the build as %s: %w", name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the overlay's folder: %w", err)
	}
	replace := map[string]string{}
	for path, text := range changed {
		original, err := filepath.Abs(filepath.Join(top, path))
		if err != nil {
			return "", fmt.Errorf("find %s: %w", path, err)
		}
		if replace[original], err = filepath.Abs(filepath.Join(dir, strings.ReplaceAll(path, "/", "-"))); err != nil {
			return "", fmt.Errorf("find %s: %w", path, err)
		}
		if err := os.WriteFile(replace[original], []byte(text), 0o644); err != nil {
			return "", fmt.Errorf("write the overlay: %w", err)
		}
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

// apply returns the changed texts by path. A description is a list of sections, "-- path old --" and after it "-- path new --".
func apply(name, top string) (map[string]string, error) {
	a, err := read(name)
	if err != nil {
		return nil, err
	}
	changed := map[string]string{}
	for pair := range slices.Chunk(a.Files, 2) {
		path, ok := strings.CutSuffix(pair[0].Name, " old")
		if len(pair) != 2 || !ok || pair[1].Name != path+" new" {
			return nil, fmt.Errorf("section %q: write pairs of sections, PATH old and PATH new", pair[0].Name)
		}
		if changed[path] == "" {
			text, err := os.ReadFile(filepath.Join(top, path))
			if err != nil {
				return nil, err
			}
			changed[path] = string(text)
		}
		old := string(pair[0].Data)
		if n := strings.Count(changed[path], old); n != 1 {
			return nil, fmt.Errorf("%s says %d times what is to be replaced, want once; write the description anew for the code of today:\n%s", path, n, old)
		}
		changed[path] = strings.Replace(changed[path], old, string(pair[1].Data), 1)
	}
	if len(changed) == 0 {
		return nil, fmt.Errorf("the description changes nothing")
	}
	return changed, nil
}
