package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outbox-relay/outbox/internal/config"
)

// environment holds the variables that the process was started with.
type environment map[string]string

// newEnvironment takes the form of os.Environ: NAME=value.
func newEnvironment(environ []string) environment {
	e := environment{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			e[name] = value
		}
	}
	return e
}

// fromEnvironment sets the flags that the command line does not, and returns everything that is wrong with them.
func (a *app) fromEnvironment(cmd *cobra.Command) error {
	return a.fromEnvironmentBut(cmd, nil)
}

// fromEnvironmentBut leaves flags out, by their names, that somebody else reads.
func (a *app) fromEnvironmentBut(cmd *cobra.Command, left []string) error {
	var problems []error
	a.origin = map[string]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || slices.Contains(left, f.Name) {
			return
		}
		for _, name := range envNames(f.Name) {
			value := a.env[name]
			if value == "" {
				continue
			}
			if err := cmd.Flags().Set(f.Name, value); err != nil {
				problems = append(problems, fmt.Errorf("environment variable %s: %q: want %s", name, value, wanted(f)))
			}
			a.origin[f.Name] = name
			return
		}
	})
	return errors.Join(problems...)
}

// kinds says what the values of a flag's type look like.
var kinds = map[string]string{
	"bool":        "true or false",
	"duration":    "a duration such as 100ms",
	"int":         "a whole number",
	"int64":       "a whole number, at most 9223372036854775807",
	"float64":     "a number",
	"string":      "a text",
	"stringSlice": "names with commas between them",
}

// wanted says what the value of a flag has to look like.
func wanted(f *pflag.Flag) string {
	if v, ok := f.Value.(interface{ Want() string }); ok {
		return v.Want()
	}
	return cmp.Or(kinds[f.Value.Type()], "another value")
}

// envNames are the variables of a flag, the one that wins first: a flag that is a setting of the relay goes by the usual names of that too.
func envNames(flag string) []string {
	if names := config.VariablesOf(flag); names != nil {
		return names
	}
	return []string{config.Prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))}
}

// named is how a flag was set: by its own name on the command line, or by a variable.
func (a *app) named(flag string) string {
	return cmp.Or(a.origin[flag], "--"+flag)
}

// serviceLinks are what Kubernetes sets by itself in every container beside a service that is called outbox, or outbox-something.
var serviceLinks = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_.*)?)$`)

// warnOfUnknown names each variable that looks like a setting and is none, with the setting that is meant, if one is near.
func (a *app) warnOfUnknown(root *cobra.Command) {
	known := map[string]bool{}
	collectNames(root, known)
	for _, name := range config.Variables() {
		known[name] = true
	}
	settings := slices.Sorted(maps.Keys(known))
	for _, name := range slices.Sorted(maps.Keys(a.env)) {
		if !strings.HasPrefix(name, config.Prefix) || known[name] || config.OfOneSource(name) || serviceLinks.MatchString("_"+strings.TrimPrefix(name, config.Prefix)) {
			continue
		}
		advice := "no flag of any command has this name"
		if near := config.Nearest(name, settings, len(config.Prefix)); near != "" {
			advice = "did you mean " + near + "?"
		}
		a.warn(fmt.Sprintf("environment variable %s is no setting: %s", name, advice))
	}
}

func collectNames(cmd *cobra.Command, names map[string]bool) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names[envNames(f.Name)[0]] = true })
	for _, sub := range cmd.Commands() {
		collectNames(sub, names)
	}
}
