package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
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

// atLeast wants the limit or a greater value.
func atLeast[T number](flag string, value *T, limit T) check {
	return check{flag, func() bool { return *value >= limit }, fmt.Sprintf("%v or more", limit)}
}

// between wants one of the values from low to high.
func between[T number](flag string, value *T, low, high T) check {
	return check{flag, func() bool { return low <= *value && *value <= high }, fmt.Sprintf("%v to %v", low, high)}
}

// oneOf wants one of some words, in any case; none at all is left to the default.
func oneOf(flag string, value *string, words []string) check {
	return check{flag, func() bool { return *value == "" || slices.Contains(words, strings.ToLower(*value)) }, config.Alternatives(words)}
}

// badFlag is what is wrong with a flag, with the name by which it was set before it.
func (a *app) badFlag(cmd *cobra.Command, flag, format string, args ...any) error {
	err := fmt.Errorf("%s"+format, append([]any{a.named(flag)}, args...)...)
	if a.origin[flag] != "" {
		// A variable of the environment is no command line.
		return &configError{err}
	}
	return &usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
}

// settingsError is what is wrong with settings that were collected: usage, where all of it stands on the command line.
func settingsError(cmd *cobra.Command, err error) error {
	if config.Typed(err) {
		return &usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	}
	return &configError{err}
}

// problems are the checks that fail, each with the name by which the value was given.
func (a *app) problems(cmd *cobra.Command, checks []check) []error {
	var problems []error
	for _, c := range checks {
		if !c.ok() {
			value := cmp.Or(a.env[a.origin[c.flag]], cmd.Flags().Lookup(c.flag).Value.String())
			problems = append(problems, fmt.Errorf("%s is %s: want %s", a.named(c.flag), config.Quoted(value), c.want))
		}
	}
	return problems
}

// refuse fails a command line with a value that cannot be, whichever: everything that is wrong at once.
func (a *app) refuse(cmd *cobra.Command, checks []check) error {
	problems := a.problems(cmd, checks)
	if problems == nil {
		return nil
	}
	for _, c := range checks {
		if !c.ok() && a.origin[c.flag] != "" {
			// A variable of the environment is no command line.
			return &configError{errors.Join(problems...)}
		}
	}
	return &usageError{fmt.Errorf("%w; see %s --help", errors.Join(problems...), cmd.CommandPath())}
}

// completeWords makes the shell's completion show the words that a flag takes.
func completeWords(cmd *cobra.Command, flag string, words []string) {
	// The error would be that there is no such flag, or that it has its words already.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
