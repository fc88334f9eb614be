package fleet

import (
	"errors"
	"strings"

	"github.com/outbox-relay/outbox/relay"
)

// Error tells which members failed. It is relay.ErrConfiguration when all of their errors are: with an outage among them, starting again may help.
type Error struct {
	// Failures are in the members' order; never empty.
	Failures []Failure
}

// Failure is what became of one member.
type Failure struct {
	Name string
	Err  error
}

// Error has one line for each member.
func (e *Error) Error() string {
	var lines []string
	for _, f := range e.Failures {
		lines = append(lines, f.Name+": "+f.Err.Error())
	}
	return strings.Join(lines, "\n")
}

// Is tells that there is nothing but configuration to mend.
func (e *Error) Is(target error) bool {
	if target != relay.ErrConfiguration {
		return false
	}
	for _, f := range e.Failures {
		if !errors.Is(f.Err, target) {
			return false
		}
	}
	return true
}
