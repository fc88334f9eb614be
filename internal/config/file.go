package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// file is what the YAML file says.
type file struct {
	// name is short: errors begin with it.
	name string
	// top is for the process and for all sources.
	top layer
	// entries are the list of sources; nil when there is none.
	entries []entry
	// listed tells that there is a list, be it empty.
	listed bool

	problems []error
}

// entry is one source of the list.
type entry struct {
	name string
	line int
	own  layer
}

const (
	keySources = "sources"
	keyName    = "name"
)

// maxFile is more than any list of sources needs.
const maxFile = 4 << 20

// readFile reads the YAML file at the path and everything that is wrong with it.
func readFile(path string) *file {
	f := &file{name: filepath.Base(path), top: newLayer()}
	content, err := open(path)
	if err != nil {
		f.problems = append(f.problems, fmt.Errorf("read settings: %w", err))
		return f
	}
	root, err := parseYAML(content)
	if err != nil {
		f.problems = append(f.problems, f.syntax(err))
		return f
	}
	if root != nil {
		f.readTop(root)
	}
	return f
}

func open(path string) (string, error) {
	r, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes: that is no file of settings", path, maxFile)
	}
	return string(content), err
}

var errSecondDocument = errors.New("the file holds a second document, begun by ---: write one")

// parseYAML returns the top node; nil when there is nothing in the file.
func parseYAML(content string) (*yaml.Node, error) {
	d := yaml.NewDecoder(strings.NewReader(content))
	var document, second yaml.Node
	if err := d.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	if err := d.Decode(&second); err == nil {
		return nil, errSecondDocument
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return document.Content[0], nil
}

// yamlError is how the parser words an error.
var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func (f *file) syntax(err error) error {
	text := err.Error()
	place := f.name
	if m := yamlError.FindStringSubmatch(text); m != nil {
		text = m[2]
		if m[1] != "" {
			place += ":" + m[1]
		}
	}
	if strings.Contains(text, "cannot start any token") || strings.Contains(text, "found a tab") {
		text += "; YAML is indented by blanks, never by tabs"
	}
	return fmt.Errorf("%s: %s", place, text)
}

func (f *file) complain(line int, format string, args ...any) {
	f.problems = append(f.problems, fmt.Errorf("%s:%d: %s", f.name, line, fmt.Sprintf(format, args...)))
}
