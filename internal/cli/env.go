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

const envPrefix = "OUTBOX_"

// usualNames are variables that go by another name everywhere else; they are read when the flag's own is not set.
var usualNames = map[string]string{
	"database-url":   "DATABASE_URL",
	"brokers":        "KAFKA_BROKERS",
	"tls":            "KAFKA_TLS_ENABLED",
	"sasl-mechanism": "KAFKA_SASL_MECHANISM",
	"sasl-username":  "KAFKA_SASL_USERNAME",
}

// fromEnvironment sets the flags that the command line does not, and returns everything that is wrong with them.
func (a *app) fromEnvironment(cmd *cobra.Command) error {
	var problems []error
	a.origin = map[string]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" {
			return
		}
		for _, name := range envNames(f.Name) {
			value := a.env[name]
			if value == "" {
				continue
			}
			if err := cmd.Flags().Set(f.Name, value); err != nil {
				problems = append(problems, fmt.Errorf("environment variable %s: %q: want %s", name, value, kinds[f.Value.Type()]))
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
	"float64":     "a number",
	"string":      "a text",
	"stringSlice": "names with commas between them",
}

func envNames(flag string) []string {
	names := []string{envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))}
	if usual := usualNames[flag]; usual != "" {
		names = append(names, usual)
	}
	return names
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
	settings := slices.Sorted(maps.Keys(known))
	for _, name := range slices.Sorted(maps.Keys(a.env)) {
		if !strings.HasPrefix(name, envPrefix) || known[name] || serviceLinks.MatchString("_"+strings.TrimPrefix(name, envPrefix)) {
			continue
		}
		advice := "no flag of any command has this name"
		if near := nearest(name, settings); near != "" {
			advice = "did you mean " + near + "?"
		}
		fmt.Fprintf(a.stderr, "outbox: warning: environment variable %s is no setting: %s\n", name, advice)
	}
}

func collectNames(cmd *cobra.Command, names map[string]bool) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names[envNames(f.Name)[0]] = true })
	for _, sub := range cmd.Commands() {
		collectNames(sub, names)
	}
}

// nearest returns the candidate that fewest edits make of the name; "" when it takes more than a third of its letters.
func nearest(name string, candidates []string) string {
	best, fewest := "", (len(name)-len(envPrefix))/3+1
	for _, c := range candidates {
		if d := distance(name, c); d < fewest {
			best, fewest = c, d
		}
	}
	return best
}

// distance counts the letters that have to be put in, left out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := before
			if a[i] != b[j] {
				changed++
			}
			before = row[j+1]
			row[j+1] = min(row[j+1]+1, row[j]+1, changed)
		}
	}
	return row[len(b)]
}
