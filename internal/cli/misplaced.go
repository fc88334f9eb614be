package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/config"
)

// unknownCommand says that a command has none of this name, and which one may be meant: what has the name elsewhere in the tree, or one that is spelled like it. rest are the
// words that stood beside it, flags too.
func unknownCommand(cmd *cobra.Command, name string, rest ...string) error {
	meant := elsewhere(cmd, name, rest)
	near, deeper := alike(cmd, name, rest)
	switch {
	case deeper:
		meant = near
	// One that lacks its last letter means the command itself, more than a word that another takes.
	case slices.Contains(near, cmd.CommandPath()+" "+name+"s"):
		meant = append([]string{cmd.CommandPath() + " " + name + "s"}, meant...)
	// What is called so counts for more than a command of another meaning that is spelled like it, such as relay for retry; but who is in a group already has most likely
	// mistyped.
	case cmd.HasParent() || len(meant) == 0:
		meant = append(near, meant...)
	}
	text := fmt.Sprintf("unknown command %q for %q; ", withoutPassword(name), cmd.CommandPath())
	switch {
	case len(meant) > 0:
		return fmt.Errorf("%sdid you mean %s?", text, config.Alternatives(meant))
	case cmd.HasParent():
		return fmt.Errorf("%swant %s; see %s --help", text, config.Alternatives(children(cmd)), cmd.CommandPath())
	}
	return fmt.Errorf("%ssee %s --help", text, cmd.CommandPath())
}

// elsewhere finds the commands that are called so and stand at another place. Of several those count that take the words behind the name, or belong to the first of them,
// as in list events.
func elsewhere(cmd *cobra.Command, name string, rest []string) []string {
	var taking, all []string
	for _, c := range called(cmd.Root(), name) {
		all = append(all, c.CommandPath())
		if len(rest) > 0 && c.HasParent() && c.Parent().Name() == rest[0] {
			line, _ := lineOf(c, rest[1:])
			return []string{line}
		}
		if line, whole := lineOf(c, rest); whole {
			taking = append(taking, line)
		}
	}
	if len(taking) > 0 {
		return taking
	}
	return all
}

// called returns the commands below root that are called so.
func called(root *cobra.Command, name string) (found []*cobra.Command) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() == name {
			found = append(found, c)
		}
		found = append(found, called(c, name)...)
	}
	return found
}

// alike finds the commands of the group that are spelled like the name, or are listed as meant by it. deeper tells that one of them is a group, and the next word one of its
// commands, which is returned alone.
func alike(cmd *cobra.Command, name string, rest []string) (meant []string, deeper bool) {
	cmd.SuggestionsMinimumDistance = 2
	for _, near := range cmd.SuggestionsFor(name) {
		c, left, err := cmd.Find(append([]string{near}, rest...))
		line, whole := lineOf(c, left)
		if !whole {
			line = c.CommandPath()
		}
		if err == nil && c.Parent() != cmd {
			return []string{line}, true
		}
		meant = append(meant, line)
	}
	return meant, false
}

// lineOf is a command with the arguments and the flags that were typed, as a shell takes it; whole tells that the command takes them. Without them it stands where it does not know the flags.
func lineOf(cmd *cobra.Command, typed []string) (line string, whole bool) {
	var flags []string
	err := cmd.Flags().ParseAll(typed, func(f *pflag.Flag, value string) error {
		flags = append(flags, repeated(f, value))
		return nil
	})
	if err != nil {
		return cmd.CommandPath(), false
	}
	args := cmd.Flags().Args()
	words := []string{cmd.CommandPath()}
	for _, arg := range args {
		words = append(words, advice.Word(withoutPassword(arg)))
	}
	return strings.Join(append(words, flags...), " "), !cmd.HasSubCommands() && cmd.Args(cmd, args) == nil
}

// repeated is a flag with its value, as a shell takes it.
func repeated(f *pflag.Flag, value string) string {
	switch {
	case f.Name == "database-url":
		value = config.Shown(value)
	case f.NoOptDefVal == "":
		value = withoutPassword(value)
	case value == f.NoOptDefVal:
		return "--" + f.Name
	default:
		return "--" + f.Name + "=" + advice.Word(value)
	}
	return "--" + f.Name + " " + advice.Word(value)
}

// passwordLike is in a text that may hold a password: user and password before an address, or a word that says so.
var passwordLike = regexp.MustCompile(`(?i):[^@\s]*@|(pass|pwd|secret|token)[a-z]*\s*=`)

// withoutPassword is a text that was typed, with *** for one that may hold a password.
func withoutPassword(text string) string {
	if passwordLike.MatchString(text) {
		return "***"
	}
	return text
}

func children(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	slices.Sort(names)
	return names
}
