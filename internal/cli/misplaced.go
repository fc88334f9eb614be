package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/config"
)

// unknownCommand says that a command has none of this name, and which one may be meant: what has the name elsewhere in the tree, or one that is spelled like it. rest are the
// words that stood behind it.
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
	text := fmt.Sprintf("unknown command %q for %q; ", name, cmd.CommandPath())
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
			return []string{typed(c, rest[1:])}
		}
		if !c.HasSubCommands() && c.Args(c, rest) == nil {
			taking = append(taking, typed(c, rest))
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
		text := c.CommandPath()
		if !c.HasSubCommands() && c.Args(c, left) == nil {
			text = typed(c, left)
		}
		if err == nil && c.Parent() != cmd {
			return []string{text}, true
		}
		meant = append(meant, text)
	}
	return meant, false
}

// typed is a command with its arguments, as a shell takes it.
func typed(cmd *cobra.Command, args []string) string {
	words := []string{cmd.CommandPath()}
	for _, arg := range args {
		words = append(words, advice.Word(arg))
	}
	return strings.Join(words, " ")
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
