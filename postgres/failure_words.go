package postgres

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// What the server says of a row that it refuses goes into logs, and into state tables that people read who may not read the outbox. Its Detail and Where repeat keys, rows and
// JSON; so does the message itself where a value is what is wrong. None of that is repeated here: the server's own log has it.

// quietError is a server's error without what the row holds.
type quietError struct {
	text string
	err  error
}

func (e *quietError) Error() string { return e.text }
func (e *quietError) Unwrap() error { return e.err }

// valueRefused stands for a message that repeats a value.
const valueRefused = "a value is refused, which the server's log has and this text has not"

// withoutValues returns the error with a text that does not repeat values of a row.
func withoutValues(err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || !repeatsValues(refused.Code) {
		return err
	}
	return &quietError{strings.ReplaceAll(err.Error(), refused.Message, valueRefused), err}
}

// repeatsValues tells that a message of the code may hold a value: those of data exceptions do, but for a text that is too long, a NULL, and a division by zero. What a trigger
// raises is in words that its author has chosen.
func repeatsValues(code string) bool {
	return strings.HasPrefix(code, "22") && !slices.Contains([]string{"22001", "22004", "22012"}, code)
}

// raisedAt is which function has raised, and in which line. What follows it in the server's context may be a statement with values.
func raisedAt(refused *pgconn.PgError) string {
	if !strings.HasPrefix(refused.Code, "P0") {
		return ""
	}
	at, _, _ := strings.Cut(refused.Where, "\n")
	return at
}
