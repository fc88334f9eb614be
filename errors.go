package outbox

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that callers branch on, by errors.Is.
var (
	// ErrInvalid: an event was refused; errors.As with [*InvalidError] gives the problems. Nothing was sent, the transaction goes on.
	ErrInvalid = errors.New("event is invalid")
	// ErrNoHeadersColumn: an event has headers and the table has no column for them. The transaction goes on, unless the writer was
	// configured with [HeadersAssumed].
	ErrNoHeadersColumn = errors.New("table has no column headers of type jsonb")
	// ErrDuplicateID: a unique constraint refused the events: the table holds one of that id already, unless constraints or triggers were
	// added. The transaction can only be rolled back.
	ErrDuplicateID = errors.New("event id is in the table already")
	// ErrNotStored: the database accepted the statement and stored fewer rows. Roll back, or those events are lost.
	ErrNotStored = errors.New("events were not stored")
)

// InvalidError holds everything that is wrong with the events of one call. It is an [ErrInvalid].
type InvalidError struct {
	// Problems are in the order of the events; there is at least one.
	Problems []Problem
}

// Problem is one thing that is wrong with one event. Its texts hold positions and names, and nothing of the payload's values.
type Problem struct {
	// Event is the event's position in the call, from 0.
	Event int
	// Field is the field of [Event], such as Payload or Headers["trace"].
	Field string
	// Text says what is wrong, such as "is empty".
	Text string
	// Remedy says what to do about it.
	Remedy string
}

// String says it in one line.
func (p Problem) String() string {
	return fmt.Sprintf("event %d: %s: %s: %s", p.Event, p.Field, p.Text, p.Remedy)
}

// Error gives one line for each problem, at most 20.
func (e *InvalidError) Error() string {
	const most = 20
	lines := make([]string, 0, most+2)
	lines = append(lines, fmt.Sprintf("check events: %s, nothing was sent", count(len(e.Problems), "problem")))
	for i, p := range e.Problems {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(e.Problems)-most))
			break
		}
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// fault is a problem before it is known where it was found.
type fault struct{ text, remedy string }

func faultf(remedy, format string, args ...any) *fault {
	return &fault{fmt.Sprintf(format, args...), remedy}
}

func (f *fault) Error() string { return f.text + ": " + f.remedy }
