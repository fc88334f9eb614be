package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

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
sasl-password-file of the file that --config names; that of the database also
from a program: --database-password-command.

The log is text on a terminal and JSON elsewhere.

` + exitCodesHelp

// exitCodesHelp ends the help of commands that have no exit codes of their own.
const exitCodesHelp = `Exit codes:
  0   ok
  1   failed
  2   usage: the command line cannot be understood, or a value on it cannot be
  3   not confirmed, of commands that ask: nothing was changed
  78  configuration: a setting of the environment or of a file that cannot be,
      or a password, a name or a right that waiting does not mend`

// usageError is a command line that cannot be understood, configError a setting that cannot work.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

type configError struct{ err error }

func (e *configError) Error() string {
	text := strings.TrimPrefix(e.err.Error(), "configuration: ")
	if strings.Contains(text, "\n") {
		return "configuration:\n  " + strings.ReplaceAll(text, "\n", "\n  ")
	}
	return "configuration: " + text
}

func (e *configError) Unwrap() error { return e.err }

// quietError fails a command that has said everything already.
type quietError struct{}

func (e *quietError) Error() string { return "failed" }

// isQuiet tells that there is nothing more to say.
func isQuiet(err error) bool {
	_, quiet := errors.AsType[*quietError](err)
	return quiet || isDeserted(err)
}

// isDeserted tells that nobody listens: the reader of stdout, such as head, has what it wanted and has gone. That is no failure, unless there is another.
func isDeserted(err error) bool {
	_, quiet := errors.AsType[*quietError](err)
	path, ok := errors.AsType[*fs.PathError](err)
	return !quiet && ok && path.Op == "write" && errors.Is(path, syscall.EPIPE)
}

// errorObject is how an error is printed on stderr where JSON was asked for.
type errorObject struct {
	Error string `json:"error"`
	// Code is that of the operators' service, or usage, configuration or failed.
	Code     string `json:"code"`
	ExitCode int    `json:"exit_code"`
	// Plan is what nobody has agreed to.
	Plan any `json:"plan,omitempty"`
	warningsObject
}

// warningsObject is what stands on stderr where all went well.
type warningsObject struct {
	Warnings []string `json:"warnings,omitempty"`
}

// sayError says why the command failed, unless that is said already.
func (a *app) sayError(err error) {
	switch {
	case isQuiet(err):
		a.sayWarnings()
	case a.asJSON:
		object := errorObject{Error: err.Error(), Code: errorCode(err), ExitCode: exitCode(err), warningsObject: warningsObject{a.warnings}}
		if planned, ok := errors.AsType[*plannedError](err); ok {
			object.Plan = planned.plan
		}
		// Nobody could be told of an error here.
		_ = encodeTo(a.stderr, object)
	case a.ends != nil:
		a.ends.Error("relay failed", "error", inOneLine(strings.TrimPrefix(err.Error(), "outbox: ")), "exit_code", exitCode(err))
	default:
		fmt.Fprintf(a.stderr, "outbox: %s\n", plainText(strings.TrimPrefix(err.Error(), "outbox: ")))
	}
}

// sayWarnings says what was kept for the end.
func (a *app) sayWarnings() {
	if len(a.warnings) > 0 {
		// Nobody could be told of an error here.
		_ = encodeTo(a.stderr, warningsObject{a.warnings})
	}
}

// plannedError is a change that nobody has agreed to, with what it would do.
type plannedError struct {
	error
	plan any
}

// Unwrap returns the refusal.
func (e *plannedError) Unwrap() error { return e.error }

// errorCode is the name of an error for programs. Where what has to be mended is the configuration, the code says so, whatever failed by it.
func errorCode(err error) string {
	code := operate.CodeOf(err)
	switch exit := exitCode(err); {
	case code == operate.CodeForbidden:
		return string(code)
	case exit == exitConfig:
		return "configuration"
	case code != "":
		return string(code)
	case exit == exitUsage:
		return "usage"
	case isUnavailable(err):
		return string(operate.CodeUnavailable)
	}
	return "failed"
}

// isUnavailable tells that the database or the brokers cannot be asked now.
func isUnavailable(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if publish, ok := errors.AsType[*relay.PublishError](err); ok {
		return publish.Class == relay.ClassOutage
	}
	if network, ok := errors.AsType[net.Error](err); ok && !errors.Is(network, context.Canceled) {
		return true
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	// The classes of connections, of resources that are used up, and of an operator's stop.
	return ok && (strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "53") || strings.HasPrefix(pg.Code, "57P"))
}

// wantsJSON tells whether the command prints JSON, as far as its flags were read.
func (a *app) wantsJSON(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("json")
	if f == nil {
		return false
	}
	// A variable counts before it has become the flag: what is said until then is for the same reader.
	byVariable, err := strconv.ParseBool(a.env[envNames("json")[0]])
	return f.Value.String() == "true" || !f.Changed && err == nil && byVariable
}

func exitCode(err error) int {
	var usage *usageError
	var config *configError
	switch {
	case isDeserted(err):
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &config), errors.Is(err, relay.ErrConfiguration):
		return exitConfig
	case operate.CodeOf(err) == operate.CodeInvalid:
		return exitUsage
	case operate.CodeOf(err) == operate.CodeUnconfirmed:
		return exitUnconfirmed
	}
	return exitFailed
}
