package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/outbox-relay/outbox/internal/patience"
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
	// illegible tells that nothing is known of what the file says; nameless that there are sources whose names are not known.
	illegible, nameless bool

	// only are the settings that are wanted; nil means all.
	only []string

	// unknown counts the settings that are none.
	unknown  int
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
const maxFile = 1 << 20

// filePatience is how long a file may take that is read at the start: the writer of a pipe may come a moment later.
const filePatience = 15 * time.Second

// readFile reads the YAML file at the path and everything that is wrong with it. Where only some settings are wanted, the values of others are not looked at.
func readFile(ctx context.Context, path string, only ...string) *file {
	f := &file{name: filepath.Base(path), top: newLayer(), only: only}
	read, err := patience.File(ctx, filePatience, path, "file of settings", maxFile)
	if err != nil {
		return f.unread(fmt.Errorf("read settings: %w", err))
	}
	content := string(read.Bytes)
	if err := f.legible(content); err != nil {
		return f.unread(err)
	}
	root, err := parseYAML(content)
	if err != nil {
		return f.unread(f.syntax(err, content))
	}
	if root != nil {
		f.readTop(ctx, root)
	}
	return f
}

// wants tells whether anybody looks at the setting.
func (f *file) wants(s Setting) bool { return f.only == nil || slices.Contains(f.only, s.Key) }

// unread gives up a file whose text says nothing.
func (f *file) unread(err error) *file {
	f.problems, f.illegible = append(f.problems, err), true
	return f
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

// legible refuses what is no text, and a file in which somebody has forgotten to put something.
func (f *file) legible(content string) error {
	if strings.TrimSpace(content) == "" {
		return fmt.Errorf("%s: the file is empty: write settings into it, or name none", f.name)
	}
	for at, r := range content {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(content[at:]); size == 1 {
				return fmt.Errorf("%s:%d: byte 0x%02x is no UTF-8: save the file as UTF-8", f.name, 1+strings.Count(content[:at], "\n"), content[at])
			}
		}
	}
	return nil
}

// yamlError is how the parser words an error.
var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// onFirstLine are errors that the parser gives no line when they are on the first.
var onFirstLine = regexp.MustCompile(`cannot start any token|did not find expected|not allowed in this context`)

// indentedByTab is the beginning of a line that has a tab before its text.
var indentedByTab = regexp.MustCompile(`(?m)^ *\t[^\n]*\S`)

// syntax says what the parser has found, with what may be meant; nothing of the file is repeated, which may be a password.
func (f *file) syntax(err error, content string) error {
	text, line := err.Error(), ""
	if m := yamlError.FindStringSubmatch(text); m != nil {
		line, text = m[1], m[2]
	}
	if line == "" && onFirstLine.MatchString(text) {
		line = "1"
	}
	switch tab := indentedByTab.FindStringIndex(content); {
	case strings.HasPrefix(text, "unknown anchor"):
		text = "a value begins with *, which stands for an anchor that is not there: put a text that begins so in quotes"
	case tab != nil && (strings.Contains(text, "cannot start any token") || strings.Contains(text, "found a tab")):
		line = strconv.Itoa(1 + strings.Count(content[:tab[0]], "\n"))
		text = "found a tab; YAML is indented by blanks, never by tabs"
	case strings.Contains(text, "cannot start any token"):
		text += "; put a text that begins with @, % or ` in quotes"
	}
	if line != "" {
		line = ":" + line
	}
	return fmt.Errorf("%s%s: %s", f.name, line, text)
}

func (f *file) complain(line int, format string, args ...any) {
	f.problems = append(f.problems, fmt.Errorf("%s:%d: %s", f.name, line, fmt.Sprintf(format, args...)))
}
