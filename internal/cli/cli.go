package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/outbox-relay/outbox/relay"
)

// The exit codes: 78 is EX_CONFIG of sysexits.h.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitConfig = 78
)

// app is what every command needs of its surroundings.
type app struct {
	stdout, stderr io.Writer
	getenv         func(string) string
}

// Run executes one command and returns its exit code: 0 ok, 1 failed, 2 usage, 78 configuration.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	a := &app{stdout: stdout, stderr: stderr, getenv: getenv}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var quiet *quietError
	if !errors.As(err, &quiet) {
		fmt.Fprintf(stderr, "outbox: %v\n", err)
	}
	return exitCode(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "outbox",
		Short: "From a PostgreSQL transaction to Kafka: always, in order, soon",
		Long: `outbox publishes the events that services write into a PostgreSQL table, in the
transaction of their business change, to Kafka: none is lost, the events of a
key stay in commit order, and one bad event stops at most its key.

Every flag can also be set by the environment: its name in capitals, with
OUTBOX_ before it and _ for -, such as OUTBOX_POLL_INTERVAL. A flag wins.

Exit codes: 0 ok, 1 failed, 2 usage, 78 configuration.`,
		Example:       "  outbox demo\n  outbox migrate up\n  outbox relay --listen :9090",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return a.fromEnvironment(cmd)
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(a.demo(), a.relay(), a.migrate(), a.status(), a.keys(), a.version())
	noArgsAreUsage(root)
	return root
}

// noArgsAreUsage makes a wrong number of arguments a usage error of every command.
func noArgsAreUsage(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		check = cobra.NoArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
		}
		return nil
	}
	for _, sub := range cmd.Commands() {
		noArgsAreUsage(sub)
	}
}

// usageError is a command line that cannot be understood, configError a setting that cannot work.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

type configError struct{ err error }

func (e *configError) Error() string { return "configuration: " + e.err.Error() }
func (e *configError) Unwrap() error { return e.err }

// quietError fails a command that has said everything already.
type quietError struct{}

func (e *quietError) Error() string { return "failed" }

func exitCode(err error) int {
	var usage *usageError
	var config *configError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &config), errors.Is(err, relay.ErrConfiguration):
		return exitConfig
	}
	return exitFailed
}

// logger writes text to a terminal and JSON to anything else.
func (a *app) logger(level slog.Level) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if isTerminal(a.stderr) {
		return slog.New(slog.NewTextHandler(a.stderr, opts))
	}
	return slog.New(slog.NewJSONHandler(a.stderr, opts))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// plural is "1 key" or "3 keys".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "y") {
		noun = strings.TrimSuffix(noun, "y") + "ie"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
