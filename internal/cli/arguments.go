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

// arguments wants one argument for each name, and no more; without names it wants none.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		name := strings.TrimPrefix(cmd.CommandPath(), "outbox ")
		switch {
		case len(args) == 1 && len(names) == 0 && (args[0] == "list" || args[0] == "show"):
			return fmt.Errorf("%s takes no arguments, and got %q: %s shows it itself", name, args[0], cmd.CommandPath())
		case len(args) > len(names) && len(names) == 0:
			return fmt.Errorf("%s takes no arguments, and got %q", name, withoutPassword(args[0]))
		case len(args) != len(names):
			return fmt.Errorf("%s needs %s, and got %s", name, strings.Join(names, " and "), plural(len(args), "argument"))
		}
		return nil
	}
}

// argumentsAreUsage makes wrong arguments a usage error of every command.
func argumentsAreUsage(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil || cmd.Name() == "completion" || cmd.HasParent() && cmd.Parent().Name() == "completion" {
		check = arguments()
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && cmd.HasAvailableSubCommands() {
			return &usageError{unknownCommand(cmd, args[0], args[1:]...)}
		}
		if err := check(cmd, args); err != nil {
			return &usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
		}
		return nil
	}
	for _, sub := range cmd.Commands() {
		argumentsAreUsage(sub)
	}
}

// wrongFlag says in our words what the parser of flags has found on the command line.
func wrongFlag(cmd *cobra.Command, err error, line []string) error {
	// A command that has only others below it has no flags of theirs: what is wrong is the word before.
	if words := cmd.Flags().Args(); len(words) > 0 && cmd.HasAvailableSubCommands() {
		path := strings.Fields(cmd.CommandPath())[1:]
		return &usageError{unknownCommand(cmd, words[0], without(line, append(path, words[0]))...)}
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := invalid.GetFlag()
		err = fmt.Errorf("--%s %q: want %s", f.Name, invalid.GetValue(), wanted(f))
	}
	if lacking, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		f := lacking.GetFlag()
		err = fmt.Errorf("--%s has no value: want %s", f.Name, wanted(f))
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		err = unknownFlag(cmd, unknown)
	}
	return &usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
}

// without leaves out the first of each word.
func without(line, words []string) []string {
	left := slices.Clone(line)
	for _, word := range words {
		if i := slices.Index(left, word); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	return left
}

func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	name := err.GetSpecifiedName()
	if err.GetSpecifiedShortnames() != "" {
		return fmt.Errorf("unknown flag: -%s", name)
	}
	if name == "lanes" {
		return fmt.Errorf("unknown flag: --%s: %s", name, config.LanesAdvice)
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if near := config.Nearest(name, known, 0); near != "" {
		return fmt.Errorf("unknown flag: --%s: did you mean --%s?", name, near)
	}
	return fmt.Errorf("unknown flag: --%s", name)
}

// help is cobra's command of this name, but that it fails for a command that there is not.
func (a *app) help() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND…]",
		Short:   "Show the help of a command",
		Example: "  outbox help events list",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			about := cmd.Root()
			for at, name := range args {
				i := slices.IndexFunc(about.Commands(), func(sub *cobra.Command) bool { return sub.Name() == name })
				if i < 0 {
					return &usageError{unknownCommand(about, name, args[at+1:]...)}
				}
				about = about.Commands()[i]
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// addCompletion adds cobra's command for the shells, with an example for each.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Example = "  outbox completion bash > /etc/bash_completion.d/outbox"
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, shell := range cmd.Commands() {
			shell.Example = "  outbox completion " + shell.Name()
		}
	}
}
