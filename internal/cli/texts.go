package cli

import "github.com/spf13/cobra"

// fullFlag adds the flag that shows long texts whole.
func fullFlag(cmd *cobra.Command, full *bool) {
	cmd.Flags().BoolVar(full, "full", false, "do not cut long texts")
}

// textsOf makes the cells of a table of texts: cut, or whole.
func textsOf(full bool) func(string) string {
	if !full {
		return cell
	}
	return func(s string) string {
		if s == "" {
			return "-"
		}
		return printable(s)
	}
}

// keyCell is a partition key as a cell: an empty key is one, and is shown as "".
func keyCell(key string, text func(string) string) string {
	if key == "" {
		return `""`
	}
	return text(key)
}
