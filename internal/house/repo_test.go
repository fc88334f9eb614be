package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/outbox-relay/outbox"
	top    = "../.."
)

// file is a text file of the repository.
type file struct {
	path string // from the repository's top, with slashes
	text []byte
}

// name tells whether the file's name ends in one of the given ways.
func (f file) name(suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(f.path, s) })
}

func (f file) isTest() bool { return f.name("_test.go") }

// in tells whether the file lies in one of the folders; "." is the top alone.
func (f file) in(folders ...string) bool {
	dir := path.Dir(f.path)
	return slices.ContainsFunc(folders, func(folder string) bool {
		return dir == folder || folder != "." && strings.HasPrefix(dir, folder+"/")
	})
}

// source is a parsed Go file.
type source struct {
	file
	fset *token.FileSet
	ast  *ast.File
}

// at words a finding at a place of the file.
func (s source) at(n ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.path, s.fset.Position(n.Pos()).Line, fmt.Sprintf(format, args...))
}

func parse(f file) (source, error) {
	s := source{file: f, fset: token.NewFileSet()}
	var err error
	s.ast, err = parser.ParseFile(s.fset, f.path, f.text, parser.ParseComments)
	return s, err
}

// files returns the repository's text files, without what tools make.
func files(t *testing.T) []file {
	t.Helper()
	var found []file
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "node_modules", "dist", ".tools"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, name)
		if err == nil && !bytes.ContainsRune(text[:min(len(text), 8000)], 0) {
			found = append(found, file{filepath.ToSlash(rel), text})
		}
		return err
	})
	if err != nil {
		t.Fatalf("read the repository: %v", err)
	}
	return found
}

// sources returns the Go files, of all build tags.
func sources(t *testing.T) []source {
	t.Helper()
	var found []source
	for _, f := range files(t) {
		if !f.name(".go") || slices.Contains(strings.Split(f.path, "/"), "testdata") {
			continue
		}
		s, err := parse(f)
		if err != nil {
			t.Errorf("parse: %v", err)
			continue
		}
		found = append(found, s)
	}
	return found
}
