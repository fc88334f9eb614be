// Package advice holds commands that errors name, as they are typed in a shell.
package advice

import (
	"regexp"
	"strings"
)

// Grants is the command that prints what a role needs; flags are more of its flags, such as --operator. Whoever owns the table runs what it prints.
func Grants(table, role string, flags ...string) string {
	words := append([]string{"outbox migrate grants --table", Word(table), "--role", Word(role)}, flags...)
	return strings.Join(words, " ")
}

// plain is what a shell takes as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]+$`)

// Word quotes a text that a shell would take apart.
func Word(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
