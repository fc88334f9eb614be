package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Flags adds a flag for every setting that may stand on a command line.
func Flags(fs *pflag.FlagSet) {
	for _, s := range Settings() {
		if !s.Secret {
			s.flag(fs)
		}
	}
}

func (s Setting) flag(fs *pflag.FlagSet) {
	usage := s.Usage
	if len(s.Words) > 0 {
		usage = fmt.Sprintf(usage, "`"+strings.Join(s.Words, "|")+"`")
	}
	switch value := s.byDefault().(type) {
	case bool:
		fs.Bool(s.Key, value, usage)
	case int:
		fs.Int(s.Key, value, usage)
	case time.Duration:
		if s.Kind == Age {
			AgeVar(fs, new(time.Duration), s.Key, value, usage)
			return
		}
		fs.Duration(s.Key, value, usage)
	case []string:
		fs.StringSlice(s.Key, value, usage)
	case string:
		fs.String(s.Key, value, usage)
	}
}

// fromFlags is the layer of the command line.
func fromFlags(fs *pflag.FlagSet) (layer, []error) {
	l := newLayer()
	var problems []error
	for _, s := range Settings() {
		f := fs.Lookup(s.Key)
		if f == nil || !f.Changed {
			continue
		}
		text := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			text = strings.Join(list.GetSlice(), ",")
		}
		if err := l.put(s, text, origin{name: "--" + s.Key, typed: true}); err != nil {
			problems = append(problems, err)
		}
	}
	return l, problems
}

// ownOnly are settings that say which table a source is: a flag can say so for one source only.
func ownOnly() []string { return []string{"database-url", "table"} }

// shared are the problems of flags that several sources cannot share.
func (l layer) shared(sources int) []error {
	var problems []error
	for key, o := range l.origins {
		if sources > 1 && slices.Contains(ownOnly(), key) {
			problems = append(problems, o.wrong("says which source it is, and there are %d: say it in the file", sources))
		}
	}
	return problems
}
