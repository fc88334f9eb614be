package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Whatever verb of whatever group is typed without its group, or behind another one: the answer names it in its place.
func TestAVerbAtTheWrongPlaceIsNamedInItsOwn(t *testing.T) {
	t.Parallel()
	groups := map[string]*cobra.Command{}
	visit(t, func(cmd *cobra.Command) {
		for up := cmd.Parent(); up != nil; up = up.Parent() {
			groups[up.CommandPath()] = up
		}
	})
	seen := 0
	visit(t, func(cmd *cobra.Command) {
		if cmd.HasSubCommands() || !cmd.IsAvailableCommand() || !cmd.Parent().HasParent() {
			return
		}
		for path, group := range groups {
			if slices.ContainsFunc(group.Commands(), func(sub *cobra.Command) bool { return sub.Name() == cmd.Name() }) {
				continue
			}
			seen++
			words := append(strings.Fields(path)[1:], cmd.Name())
			got := runWith(t, nil, words...)
			if _, means, _ := strings.Cut(got.errs, "did you mean "); got.code != exitUsage || !meansIt(means, cmd) {
				t.Errorf("outbox %s: %d %s", strings.Join(words, " "), got.code, got.errs)
			}
		}
	})
	if seen < 200 {
		t.Errorf("only %d places were tried", seen)
	}
}

// meansIt tells that an answer names the command, or another of the same name that takes what was typed, which is nothing.
func meansIt(means string, cmd *cobra.Command) bool {
	return strings.Contains(means, cmd.CommandPath()) || strings.Contains(means, " "+cmd.Name()) && cmd.Args(cmd, nil) != nil
}

// A command whose last letter is missing is meant more than a word that others take.
func TestAWordThatLacksItsLastLetterMeansTheCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want string }{
		{"topic", "did you mean outbox topics"},
		{"topics list", "outbox topics shows it itself"},
		{"audit list", "outbox audit shows it itself"},
		{"relays list", "outbox relays shows it itself"},
		{"keys unpark", "which ones? filter by flags such as --topic and --key, or say --all"},
	} {
		if got := runWith(t, nil, strings.Fields(c.line)...); got.code != exitUsage || !strings.Contains(got.errs, c.want) {
			t.Errorf("outbox %s: %d %s", c.line, got.code, got.errs)
		}
	}
}

// The command that is meant comes with all that was typed, as a shell takes it, but for passwords.
func TestTheCommandThatIsMeantHasTheFlagsThatWereTyped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line []string
		want string
	}{
		{[]string{"restore", "--id", "12", "--reason", "it's right"}, `did you mean outbox events restore --id 12 --reason 'it'\''s right'?`},
		{[]string{"restore", "--min-id=1", "--yes", "--json"}, "did you mean outbox events restore --min-id 1 --yes --json?"},
		{[]string{"event", "restore", "--min-id=1", "--yes=false"}, "did you mean outbox events restore --min-id 1 --yes=false?"},
		{[]string{"list", "events", "--topic", "shop.order"}, "did you mean outbox events list --topic shop.order?"},
		{[]string{"unpark", "--type", "a b"}, "did you mean outbox keys unpark --type 'a b'?"},
		{[]string{"statsu", "--database-url", "postgres://me:hunter2@h/d"}, "did you mean outbox status --database-url 'postgres://me:***@h/d'?"},
		{[]string{"statsu", "--database-url=host=h password=hunter2"}, "did you mean outbox status --database-url 'host=h password=***'?"},
		{[]string{"event", "list", "--topic", "me:hunter2@h"}, "did you mean outbox events list --topic '***'?"},
		{[]string{"show", "me:hunter2@h"}, "'***'"},
		{[]string{"show", "12", "--no-such-flag", "hunter2"}, "did you mean outbox "},
		{[]string{"postgres://me:hunter2@h/d"}, `unknown command "***" for "outbox"`},
		{[]string{"status", "password=hunter2"}, `takes no arguments, and got "***"`},
	} {
		if got := runWith(t, nil, c.line...); got.code != exitUsage || !strings.Contains(got.errs, c.want) || strings.Contains(got.errs, "hunter2") {
			t.Errorf("outbox %q: %d %s", c.line, got.code, got.errs)
		}
	}
}
