// Package topicname holds Kafka's rule for the names of topics.
package topicname

import (
	"fmt"
	"unicode/utf8"
)

// Problem is what is wrong with a name, and what to do about it.
type Problem struct{ Text, Advice string }

func (p *Problem) Error() string { return p.Text + ": " + p.Advice }

// Check returns why Kafka does not take the name; nil when it does.
func Check(name string) *Problem {
	const most = 249
	switch {
	case name == "":
		return &Problem{"is empty", "name the topic"}
	case name == "." || name == "..":
		return &Problem{fmt.Sprintf("is %q, which Kafka does not allow", name), "use another name"}
	case len(name) > most:
		return &Problem{fmt.Sprintf("has %d characters, Kafka allows at most %d", len(name), most), "shorten it"}
	}
	for i, r := range name {
		if !allowed(r) {
			_, n := utf8.DecodeRuneInString(name[i:])
			return &Problem{fmt.Sprintf("has the character %q at byte %d", name[i:i+n], i), "use ASCII letters, digits, '.', '-' and '_'"}
		}
	}
	return nil
}

func allowed(r rune) bool {
	return 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' || r == '-' || r == '_'
}
