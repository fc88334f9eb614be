package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outbox-relay/outbox/internal/config"
)

// emptyKeyFlag is the flag that means events whose partition key is empty.
const emptyKeyFlag = "empty-key"

// emptyKeyVar adds the flag.
func emptyKeyVar(cmd *cobra.Command, value *bool) {
	cmd.Flags().BoolVar(value, emptyKeyFlag, false, "the key '' is meant: events whose partition key is empty")
}

// refuseEmpty fails a command line with a text that is empty, as that of a variable is that a script has never set: nothing may be taken for everything, nor for the
// empty key. A relay's settings are left alone, for an empty flag takes there the place of a variable, but for what becomes of failed events: nobody means the default by a policy that
// is empty.
func (a *app) refuseEmpty(cmd *cobra.Command) error {
	settings := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	config.Flags(settings)
	var problems []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if (settings.Lookup(f.Name) == nil || f.Name == "on-failure") && lacksText(f) {
			problems = append(problems, fmt.Errorf("--%s is empty: %s", f.Name, emptyAdvice(cmd, f.Name)))
		}
	})
	if len(problems) == 0 {
		return nil
	}
	return &usageError{fmt.Errorf("%w; see %s --help", errors.Join(problems...), cmd.CommandPath())}
}

// blank are the flags for which blanks alone say nothing either: people read them.
var blank = []string{"reason", "as"}

func lacksText(f *pflag.Flag) bool {
	switch f.Value.Type() {
	case "string":
		text := f.Value.String()
		return text == "" || slices.Contains(blank, f.Name) && strings.TrimSpace(text) == ""
	case "stringSlice":
		return f.Value.String() == "[]"
	}
	return false
}

func emptyAdvice(cmd *cobra.Command, flag string) string {
	switch {
	case flag == "key" && cmd.Flags().Lookup(emptyKeyFlag) != nil:
		return "name the key, or say --" + emptyKeyFlag + " if events whose key is empty are meant"
	case flag == "on-failure":
		return "name a policy, such as park or orders.*=dead-letter, or leave it out, which is park"
	case flag == "topic":
		return "name the topic, or leave it out; events with an empty topic go by their ids"
	case flag == "reason":
		return "say why in some words"
	}
	return "give it a value, or leave it out"
}

// keyGiven is the partition key that is meant, be it the empty one; nil where none is named.
func keyGiven(cmd *cobra.Command, key *string, empty bool) (*string, error) {
	switch {
	case empty && cmd.Flags().Changed("key"):
		return nil, &usageError{fmt.Errorf("--key and --%s exclude each other; see %s --help", emptyKeyFlag, cmd.CommandPath())}
	case empty:
		return new(string), nil
	}
	return givenText(cmd, "key", key), nil
}

// keyArgument checks a partition key that is named by its place on the command line.
func keyArgument(cmd *cobra.Command, key string, empty bool) error {
	switch {
	case key == "" && !empty:
		return &usageError{fmt.Errorf("the key is empty: name it, or say --%s if events whose key is empty are meant; see %s --help", emptyKeyFlag, cmd.CommandPath())}
	case key != "" && empty:
		return &usageError{fmt.Errorf("the key %q and --%s exclude each other; see %s --help", key, emptyKeyFlag, cmd.CommandPath())}
	}
	return nil
}
