package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

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

// filterText is a filter as the audit and the jobs keep it, for people: topic=shop.order state=parked. What cannot be read is shown as it is.
func filterText(filter []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(filter))
	// The digits of an id stay as they are.
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return string(filter)
	}
	return strings.Join(flatten("", fields), " ")
}

func flatten(prefix string, fields map[string]any) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := fields[name].(type) {
		case map[string]any:
			list = append(list, flatten(prefix+name+".", value)...)
		case json.Number:
			list = append(list, numberText(prefix+name, value))
		case string:
			list = append(list, prefix+name+"="+valueText(value))
		default:
			text, _ := json.Marshal(value)
			list = append(list, prefix+name+"="+string(text))
		}
	}
	return list
}

// numberText shows nanoseconds as a duration.
func numberText(name string, value json.Number) string {
	if n, err := value.Int64(); err == nil && strings.HasSuffix(name, "_ns") {
		return fmt.Sprintf("%s=%s", strings.TrimSuffix(name, "_ns"), time.Duration(n))
	}
	return name + "=" + value.String()
}

// valueText quotes a text that could be taken for more than one.
func valueText(s string) string {
	if s == "" || strings.ContainsAny(s, " =\"") {
		return fmt.Sprintf("%q", s)
	}
	return s
}
