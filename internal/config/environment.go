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

// fromVariables is a layer of variables; names says by which a setting may be made, the first that is set counts.
func fromVariables(ctx context.Context, env Environment, names func(Setting) []string, scopes ...Scope) (layer, []error) {
	l := newLayer()
	var problems []error
	for _, s := range Settings() {
		if !slices.Contains(scopes, s.Scope) {
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
	return fromVariables(ctx, env, Setting.variables, Run, Process, PerSource)
}

func ofSource(ctx context.Context, env Environment, source string) (layer, []error) {
	return fromVariables(ctx, env, func(s Setting) []string { return []string{s.variableOf(source)} }, PerSource)
}

// OfOneSource tells that the variable is meant for a single source: OUTBOX_SOURCE_ORDERS__TABLE. Kubernetes never makes such a name.
func OfOneSource(variable string) bool {
	return strings.HasPrefix(variable, sourcePrefix) && strings.Contains(variable, sourceSeparator)
}

// strangers are the variables for single sources that no source or no setting answers to.
func strangers(env Environment, sources []string) []error {
	var known []string
	for _, source := range sources {
		for _, s := range Settings() {
			if s.Scope != PerSource {
				continue
			}
			known = append(known, s.variableOf(source))
			if s.Secret {
				known = append(known, s.file().variableOf(source))
			}
		}
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if env[name] == "" || !OfOneSource(name) || slices.Contains(known, name) {
			continue
		}
		advice := "there is no such source, or no such setting of it"
		if near := Nearest(name, known, len(sourcePrefix)); near != "" {
			advice = "did you mean " + near + "?"
		}
		problems = append(problems, fmt.Errorf("environment variable %s: %s", name, advice))
	}
	return problems
}
