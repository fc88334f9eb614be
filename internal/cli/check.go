package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// check is what one flag must be. It is made before the flags are read, so it holds a question and no answer.
type check struct {
	flag string
	ok   func() bool
	want string
}

// number are the types of flags that are counted or timed.
type number interface {
	~int | ~int64 | ~float64
}

// above wants a value greater than the limit.
func above[T number](flag string, value *T, limit T) check {
	return check{flag, func() bool { return *value > limit }, fmt.Sprintf("more than %v", limit)}
}

// between wants one of the values from low to high.
func between[T number](flag string, value *T, low, high T) check {
	return check{flag, func() bool { return low <= *value && *value <= high }, fmt.Sprintf("%v to %v", low, high)}
}

// choice wants one of the words.
func choice(flag string, value *string, words ...string) check {
	return check{flag, func() bool { return slices.Contains(words, *value) }, alternatives(words)}
}

func alternatives(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// problems are the checks that fail, each with the name by which the value was given.
func (a *app) problems(cmd *cobra.Command, checks []check) []error {
	var problems []error
	for _, c := range checks {
		if !c.ok() {
			value := cmp.Or(a.env[a.origin[c.flag]], cmd.Flags().Lookup(c.flag).Value.String())
			problems = append(problems, fmt.Errorf("%s is %q: want %s", a.named(c.flag), value, c.want))
		}
	}
	return problems
}

// wordsFlag adds a flag that takes one of the words, which the shell's completion shows, and its usage in the place of %s.
func wordsFlag(cmd *cobra.Command, value *string, flag, byDefault, usage string, words ...string) {
	cmd.Flags().StringVar(value, flag, byDefault, fmt.Sprintf(usage, "`"+strings.Join(words, "|")+"`"))
	// The error would be that there is no such flag, or that it has its words already.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
