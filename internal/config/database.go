package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ofDatabaseOnly are the settings that a command needs that never talks to Kafka.
func ofDatabaseOnly() []string {
	return []string{"config", "database-url", "database-password", "database-password-command", "table"}
}

// Database returns the source of that name, or the only one, for a command that needs its database and nothing else: what else is wrong with its settings is not
// looked at. typed are the flags that were given, by their keys.
func Database(ctx context.Context, typed map[string]string, env Environment, name string) (*Source, error) {
	f, sources, err := databases(ctx, typed, env)
	if err != nil {
		return nil, err
	}
	return f.choose(sources, name)
}

// Databases is Database for a command that works on all sources at once when none is named.
func Databases(ctx context.Context, typed map[string]string, env Environment, name string) ([]Source, error) {
	f, sources, err := databases(ctx, typed, env)
	if err != nil {
		return nil, err
	}
	if name != "" || len(sources) == 1 {
		one, err := f.choose(sources, name)
		if err != nil {
			return nil, err
		}
		return []Source{*one}, nil
	}
	for _, key := range ownOnly() {
		if _, given := typed[key]; given {
			return nil, fmt.Errorf("--%s says which source it is, and there are %d: name one with --source, or leave it out", key, len(sources))
		}
	}
	return sources, nil
}

// databases reads the sources, as far as databases go.
func databases(ctx context.Context, typed map[string]string, env Environment) (*file, []Source, error) {
	flags, problems := newLayer(), []error(nil)
	for _, key := range slices.Sorted(maps.Keys(typed)) {
		s, _, _ := find(key)
		problems = append(problems, flags.put(s, typed[key], origin{name: "--" + key, typed: true}))
	}
	variables := newLayer()
	for _, key := range ofDatabaseOnly() {
		s, _, _ := find(key)
		problems = append(problems, variables.variable(ctx, env, s, Setting.variables))
	}
	c := &Config{}
	if _, err := fill(c, defaults().only(Run), variables.only(Run), flags.only(Run)); err != nil {
		return nil, nil, err
	}
	f := &file{top: newLayer()}
	if c.File != "" {
		f = readFile(ctx, c.File, ofDatabaseOnly()...)
	}
	sources, wrong := f.sources(ctx, env, variables, flags)
	problems = append(append(problems, f.problems...), wrong...)
	if err := errors.Join(problems...); err != nil {
		return nil, nil, err
	}
	return f, sources, nil
}

// choose returns the source that is meant.
func (f *file) choose(sources []Source, name string) (*Source, error) {
	var names []string
	for i := range sources {
		if sources[i].Name == name || name == "" && len(sources) == 1 {
			return &sources[i], nil
		}
		names = append(names, sources[i].Name)
	}
	switch {
	case !f.listed:
		return nil, fmt.Errorf("there is no source %s: there is no list of sources; name its file with --config or OUTBOX_CONFIG", name)
	case name == "":
		return nil, fmt.Errorf("%s has the sources %s: name one with --source", f.name, strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("%s has no source %s, but %s", f.name, name, strings.Join(names, ", "))
}
