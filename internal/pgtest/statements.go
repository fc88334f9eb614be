package pgtest

import "strings"

// Statements takes SQL that is printed for people apart, as psql does: a statement ends at a semicolon at the end of a line, and a DO block with its own tag.
func Statements(sql string) (list []string) {
	var statement strings.Builder
	tag := ""
	for line := range strings.Lines(sql) {
		statement.WriteString(line)
		line = strings.TrimRight(line, "\n")
		begins := false
		if rest, block := strings.CutPrefix(line, "DO "); block && tag == "" {
			tag, begins = rest, true
		}
		if tag == "" && strings.HasSuffix(line, ";") || tag != "" && !begins && line == tag+";" {
			list = append(list, statement.String())
			statement.Reset()
			tag = ""
		}
	}
	if rest := strings.TrimSpace(statement.String()); rest != "" {
		list = append(list, rest)
	}
	return list
}
