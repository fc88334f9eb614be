package cli

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// The exit codes: 78 is EX_CONFIG of sysexits.h.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	// exitUnconfirmed: nobody has agreed to a change of many things.
	exitUnconfirmed = 3
	exitConfig      = 78
)

// settingsHelp ends the help of commands with many settings.
const settingsHelp = `Every flag can also be set by the environment: its name in capitals, with
OUTBOX_ before it and _ for -, such as OUTBOX_POLL_INTERVAL. A flag wins.
Passwords never stand on the command line. They come by the environment, in
DATABASE_URL, PGPASSWORD, OUTBOX_DATABASE_PASSWORD, KAFKA_SASL_PASSWORD, or in
files: .pgpass, and those that OUTBOX_DATABASE_PASSWORD_FILE and
KAFKA_SASL_PASSWORD_FILE name, or the lines database-password-file and
sasl-password-file of the file that --config names.

The log is text on a terminal and JSON elsewhere.

Exit codes:
  0   ok
  1   failed
  2   usage: the command line cannot be understood
  78  configuration: a setting, a password, a name or a right that waiting
      does not mend`

// usageError is a command line that cannot be understood, configError a setting that cannot work.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

type configError struct{ err error }

func (e *configError) Error() string {
	text := e.err.Error()
	if strings.Contains(text, "\n") {
		return "configuration:\n  " + strings.ReplaceAll(text, "\n", "\n  ")
	}
	return "configuration: " + text
}

func (e *configError) Unwrap() error { return e.err }

// quietError fails a command that has said everything already.
type quietError struct{}

func (e *quietError) Error() string { return "failed" }

// isQuiet tells that there is nothing more to say, or that nobody listens: the reader of stdout, such as head, has gone.
func isQuiet(err error) bool {
	var quiet *quietError
	var path *fs.PathError
	return errors.As(err, &quiet) || errors.As(err, &path) && path.Op == "write" && errors.Is(err, syscall.EPIPE)
}

func exitCode(err error) int {
	var usage *usageError
	var config *configError
	switch {
	case errors.As(err, &usage), operate.CodeOf(err) == operate.CodeInvalid:
		return exitUsage
	case errors.As(err, &config), errors.Is(err, relay.ErrConfiguration):
		return exitConfig
	case operate.CodeOf(err) == operate.CodeUnconfirmed:
		return exitUnconfirmed
	}
	return exitFailed
}
