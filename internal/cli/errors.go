package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

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
sasl-password-file of the file that --config names.

The log is text on a terminal and JSON elsewhere.

` + exitCodesHelp

// exitCodesHelp ends the help of commands that have no exit codes of their own.
const exitCodesHelp = `Exit codes:
  0   ok
  1   failed
  2   usage: the command line cannot be understood
  3   not confirmed, of commands that ask: nothing was changed
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

// errorObject is how an error is printed on stderr where JSON was asked for.
type errorObject struct {
	Error string `json:"error"`
	// Code is that of the operators' service, or usage, configuration or failed.
	Code     string `json:"code"`
	ExitCode int    `json:"exit_code"`
}

// printError prints an error as a JSON object in one line.
func printError(w io.Writer, err error) {
	code := string(operate.CodeOf(err))
	if code == "" {
		code = map[int]string{exitUsage: "usage", exitConfig: "configuration"}[exitCode(err)]
	}
	// Nobody could be told of an error here.
	_ = json.NewEncoder(w).Encode(errorObject{Error: err.Error(), Code: cmp.Or(code, "failed"), ExitCode: exitCode(err)})
}

// wantsJSON tells whether the command line asks for JSON, also when it was not understood to its end.
func wantsJSON(cmd *cobra.Command, args []string) bool {
	f := cmd.Flags().Lookup("json")
	return f != nil && (f.Value.String() == "true" || slices.Contains(args, "--json"))
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
