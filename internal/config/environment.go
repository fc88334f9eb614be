package config

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Environment holds variables by their names. An empty one counts as not set.
type Environment map[string]string

// fromVariables is a layer of variables for the settings that are wanted; names says by which a setting may be made, the first that is set counts.
func fromVariables(ctx context.Context, env Environment, names func(Setting) []string, wanted func(Setting) bool) (layer, []error) {
	l := newLayer()
	var problems []error
	for _, s := range Settings() {
		if !wanted(s) {
			continue
		}
		if err := l.variable(ctx, env, s, names); err != nil {
			problems = append(problems, err)
		}
	}
	return l, problems
}

func (l layer) variable(ctx context.Context, env Environment, s Setting, names func(Setting) []string) error {
	own := first(env, names(s))
	file := ""
	if s.Secret {
		file = first(env, names(s.file()))
	}
	switch {
	case own != "" && file != "":
		return l.judged(s, fmt.Errorf("%s and %s are both set: leave one out", own, file))
	case own != "":
		return l.put(s, env[own], origin{name: own})
	case file != "":
		return l.putFile(ctx, s, env[file], origin{name: file})
	}
	return nil
}

func first(env Environment, names []string) string {
	for _, name := range names {
		if env[name] != "" {
			return name
		}
	}
	return ""
}

// Variables are the names of all variables for all sources that begin with [Prefix].
func Variables() []string {
	var names []string
	for _, s := range Settings() {
		names = append(names, s.Variable())
		if s.Secret {
			names = append(names, s.file().Variable())
		}
	}
	return names
}

func general(ctx context.Context, env Environment) (layer, []error) {
	return fromVariables(ctx, env, Setting.variables, func(Setting) bool { return true })
}

func ofSource(ctx context.Context, env Environment, source string, wanted func(Setting) bool) (layer, []error) {
	names := func(s Setting) []string { return []string{s.variableOf(source)} }
	return fromVariables(ctx, env, names, func(s Setting) bool { return s.Scope == PerSource && wanted(s) })
}

// OfOneSource tells that the variable is meant for a single source: OUTBOX_SOURCE_ORDERS__TABLE. Kubernetes never makes such a name.
func OfOneSource(variable string) bool {
	return strings.HasPrefix(variable, sourcePrefix) && strings.Contains(variable, sourceSeparator)
}

// strangers are the variables for single sources that no source or no setting answers to. What one was meant to make is not missing as well. allKnown tells that there are no
// other sources: a variable may be for one whose name could not be read.
func strangers(env Environment, sources []Source, allKnown bool) []error {
	// refuse keeps in mind what a known variable was to make.
	refuse := map[string]func(){}
	for i := range sources {
		for _, s := range Settings() {
			if s.Scope != PerSource || !sourceName.MatchString(sources[i].Name) {
				continue
			}
			meant := func() { sources[i].refused[s.Key] = true }
			refuse[s.variableOf(sources[i].Name)] = meant
			if s.Secret {
				refuse[s.file().variableOf(sources[i].Name)] = meant
			}
		}
	}
	known := slices.Sorted(maps.Keys(refuse))
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if env[name] == "" || !OfOneSource(name) || refuse[name] != nil {
			continue
		}
		if near := Nearest(name, known, len(sourcePrefix)); near != "" {
			refuse[near]()
			problems = append(problems, fmt.Errorf("environment variable %s: did you mean %s?", name, near))
		} else if allKnown {
			problems = append(problems, fmt.Errorf("environment variable %s: there is no such source, or no such setting of it", name))
		}
	}
	return problems
}
