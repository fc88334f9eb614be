package cli

import (
	"regexp"

	"github.com/spf13/cobra"
)

// fullFlag adds the flag that shows long texts whole.
func fullFlag(cmd *cobra.Command, full *bool) {
	cmd.Flags().BoolVar(full, "full", false, "do not cut long texts")
}

// shown makes texts from the database cells of a table: cut, or whole.
type shown struct{ full bool }

// whole is for cells that are cut to the width of the terminal, if at all.
var whole = shown{full: true}

// name is a text that may be anything. What a terminal would obey, or could be taken for another text, is quoted.
func (s shown) name(text string) string {
	switch {
	case !s.full:
		return cell(text)
	case text == "":
		return "-"
	}
	return printable(text)
}

// sentence is a text for people, which may quote names itself.
func (s shown) sentence(text string) string {
	if text == "" {
		return "-"
	}
	if !s.full {
		text = abridged(text)
	}
	return noteLine(text)
}

// key is a partition key: an empty one is a key too, and is shown as "".
func (s shown) key(text string) string {
	if text == "" {
		return `""`
	}
	return s.name(text)
}

// ofLetter is how the reason of a key begins whose dead-letter topic takes nothing.
var ofLetter = regexp.MustCompile(`^(?:[A-Z0-9_]+: )?the dead-letter topic (\S+) does not take it: ([A-Z0-9_]+)`)

// letter shortens such a reason to what tells most, so that a line has room for it.
func (s shown) letter(reason string) string {
	if found := ofLetter.FindStringSubmatch(reason); found != nil && !s.full {
		return "letter topic " + found[1] + ": " + found[2]
	}
	return reason
}
