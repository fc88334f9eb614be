package inbox

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrUnavailable is in the error of a [Store] that could not be reached, or whose answer was lost: the fault of no record. Everything waits until it is back.
var ErrUnavailable = errors.New("the database is not available")

// errConflict is in the error of a transaction that lost against another one: it is made again, soon. After some times its key waits, and no
// attempt is spent before it has lost for conflictPatience.
var errConflict = errors.New("another transaction was in the way")

// errAnswers is in the error of a handler that has failed as if the database were away, or has lost its connection, while the database is there.
var errAnswers = errors.New("the database answers, yet the transaction was lost")

// errExited is what a handler is taken to return that has ended its goroutine.
var errExited = errors.New("the handler has ended its goroutine, as runtime.Goexit and a test's FailNow do: return an error instead")

// errBusy is the outcome of a record that was not begun with, through no fault of its own: it is tried again, and no attempt is spent.
var errBusy = errors.New("another transaction had the event, or there was no connection,")

// errHeld is the outcome of a record that was not tried, because one of its key in front of it has failed.
var errHeld = errors.New("a record of the key in front of this one has failed")

// Permanent marks an error that another attempt cannot mend, such as a payload without sense: none is made. Permanent of nil is nil.
func Permanent(err error) error {
	if err == nil || IsPermanent(err) {
		return err
	}
	return &permanentError{err: err}
}

// IsPermanent tells whether the error, or one within it, was marked by [Permanent].
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// forLetter marks a permanent error of a record that goes to the dead-letter topic, whatever the retry policy says.
func forLetter(err error) error { return &permanentError{err: err, letter: true} }

func isForLetter(err error) bool {
	var p *permanentError
	return errors.As(err, &p) && p.letter
}

type permanentError struct {
	err    error
	letter bool
}

func (e *permanentError) Error() string { return e.err.Error() }

func (e *permanentError) Unwrap() error { return e.err }

// panicError is a panic of a user's function: it fails the record, and nothing else.
type panicError struct {
	who   string
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.who, e.value) }

// contain has a function return its panic as an error. Use it with defer.
func contain(who string, err *error) {
	if v := recover(); v != nil {
		*err = &panicError{who, v, debug.Stack()}
	}
}

// sqlState is the SQLSTATE of an error of PostgreSQL, "" of any other.
func sqlState(err error) string {
	var state interface{ SQLState() string } // pgx and lib/pq have it both
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

// explain adds what to do to the errors that people run into.
func explain(err error) error {
	switch sqlState(err) {
	case "42P01", "3F000":
		return fmt.Errorf("the inbox's tables are not in this database: run outbox migrate up on it: %w", err)
	case "42501":
		return fmt.Errorf("a right is missing: %s: %w", howToGrant, err)
	}
	return err
}

// ofServer tells that the server, not the statement, is why there was no success. The classes are those of PostgreSQL's manual, appendix A.
func ofServer(state string) bool {
	if len(state) < 2 {
		return false
	}
	switch state[:2] {
	case "08", "53", "57", "58": // connection, resources, operator intervention, system error
		return state != "57014" // a statement that was cancelled, by statement_timeout for instance
	}
	return state == "25006" // read only, as a standby is
}

// ofOthers tells that the transaction lost against another one.
func ofOthers(state string) bool { return state == "40001" || state == "40P01" || state == "55P03" }
