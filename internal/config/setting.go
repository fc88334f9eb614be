package config

import (
	"fmt"
	"slices"
	"strings"
)

// Scope says whose setting it is.
type Scope int

// The scopes.
const (
	// Run is of one run: a flag or a variable, never a line of the file.
	Run Scope = iota + 1
	// Process is of the whole process: in the file it stands at the top.
	Process
	// PerSource is of a source. At the top of the file it is for all of them.
	PerSource
)

// Setting is one thing that can be told.
type Setting struct {
	// Key is its name in the file, and the flag's.
	Key string
	// Usual is the variable by which everybody else knows it, such as KAFKA_BROKERS; "" when there is none. OUTBOX_… wins over it.
	Usual string
	Scope Scope
	Kind  Kind
	// Default is written as a user would write it; "" is the kind's zero.
	Default string
	// Example is written in the example file in place of the default; it is needed where there is none. Of a secret it is the path of its file.
	Example string
	// Usage is one line for people. The words between backquotes stand for the value.
	Usage string
	// Words are the only values, when there are any.
	Words []string
	// Secret values have no flag, are never printed, and can be read from a file that a twin of this setting names: Key-file.
	Secret bool

	// needed tells that nothing runs without it: the example file sets it.
	needed bool
	// ok and want are what else the value must be.
	ok   func(any) bool
	want string
	// bounds are the smallest and the largest number; nil when they are not fixed.
	bounds *bounds
}

type bounds struct{ low, high int }

// Prefix begins the name of every variable that is not somebody else's.
const Prefix = "OUTBOX_"

// sourcePrefix begins the variables of single sources; sourceSeparator, which no name holds, stands between source and setting.
const (
	sourcePrefix    = Prefix + "SOURCE_"
	sourceSeparator = "__"
)

// fileSuffix makes of a secret's name the name of the setting that tells its file.
const fileSuffix = "-file"

// Variable is the setting's variable for all sources.
func (s Setting) Variable() string { return Prefix + upper(s.Key) }

// VariablesOf are the variables by which a setting is made for all sources, the one that wins first; nil when there is no such setting.
func VariablesOf(key string) []string {
	s, fromFile, known := find(key)
	switch {
	case !known:
		return nil
	case fromFile:
		return s.file().variables()
	}
	return s.variables()
}

// meaning is the setting's usage in a sentence, without what marks the value in the help of a flag.
func (s Setting) meaning() string {
	text := strings.ReplaceAll(s.Usage, "`", "")
	if len(s.Words) > 0 {
		text = fmt.Sprintf(text, Alternatives(s.Words))
	}
	return text
}

func (s Setting) variables() []string {
	if s.Usual == "" {
		return []string{s.Variable()}
	}
	return []string{s.Variable(), s.Usual}
}

func (s Setting) variableOf(source string) string {
	return sourcePrefix + upper(source) + sourceSeparator + upper(s.Key)
}

func upper(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// file is the twin that names a secret's file.
func (s Setting) file() Setting {
	twin := Setting{Key: s.Key + fileSuffix, Scope: s.Scope, Kind: Text}
	if s.Usual != "" {
		twin.Usual = s.Usual + "_FILE"
	}
	return twin
}

// check returns what the value has to be; "" when it is.
func (s Setting) check(value any) string {
	if len(s.Words) > 0 && !slices.Contains(s.Words, value.(string)) {
		return Alternatives(s.Words)
	}
	if s.ok != nil && !s.ok(value) {
		return s.want
	}
	return ""
}

// Alternatives is "a, b or c".
func Alternatives(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
