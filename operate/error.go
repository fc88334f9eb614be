package operate

import (
	"errors"
	"fmt"
)

// Code is a stable name of why something was refused, for programs.
type Code string

// The codes, each with its HTTP status and exit code in the packages that have such.
const (
	// CodeInvalid: the request itself is wrong; nothing was looked at.
	CodeInvalid Code = "invalid"
	// CodeForbidden: the actor's role does not allow it.
	CodeForbidden Code = "forbidden"
	// CodeNotFound: there is no such event, key, topic, job or relay.
	CodeNotFound Code = "not_found"
	// CodeConflict: it is not in a state in which this can be done, such as an event that is published already.
	CodeConflict Code = "conflict"
	// CodeUnconfirmed: it touches more than one thing, and nobody has agreed to the number.
	CodeUnconfirmed Code = "unconfirmed"
	// CodeTooSlow: the database did not answer in the time that a look may take; a narrower filter helps.
	CodeTooSlow Code = "too_slow"
	// CodeUnavailable: the database or the cluster cannot be asked now.
	CodeUnavailable Code = "unavailable"
)

// Error is a refusal: what, where, and what to do.
type Error struct {
	Code Code
	// Text is for people, without a full stop.
	Text string
	// Err is the cause, if there is one.
	Err error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Text
	}
	return e.Text + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of an error; "" of one that has none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Refuse makes an [Error].
func Refuse(code Code, format string, args ...any) error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}
