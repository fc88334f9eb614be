package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// app is what every command needs of its surroundings.
type app struct {
	stdout, stderr io.Writer
	env            environment
	// origin holds the variables by which flags were set, by the flags' names.
	origin map[string]string
	// password is where the password of the command's database was taken from; "" when it has none, or the command has no database.
	password string
	// asJSON tells that stdout has JSON, so that stderr has one JSON object or nothing; warnings are for it.
	asJSON   bool
	warnings []string
	// ends is the log that a relay's end is told in, where it is lines of JSON: whoever reads those can read nothing else. It is nil elsewhere.
	ends *slog.Logger
	now  func() time.Time
}

// Run executes one command and returns its exit code: 0 ok, 1 failed, 2 usage, 3 not confirmed, 78 configuration. environ has the form of os.Environ.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	a := &app{stdout: stdout, stderr: stderr, env: newEnvironment(environ), now: time.Now}
	root := a.root()
	root.SetArgs(args)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return wrongFlag(cmd, err, args) })
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	a.asJSON = a.wantsJSON(cmd) || slices.Contains(args, "--json")
	if err == nil {
		a.sayWarnings()
		return exitOK
	}
	err = explain(placed(err, a.password))
	a.sayError(err)
	return exitCode(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "outbox",
		Short: "From a PostgreSQL transaction to Kafka: always, in order, soon",
		Long: `outbox publishes the events that services write into a PostgreSQL table, in the
transaction of their business change, to Kafka: none is lost, the events of a
key stay in commit order, and one bad event stops at most its key.

` + settingsHelp,
		Version:       build(),
		Example:       "  outbox demo\n  outbox migrate up\n  outbox relay --listen :9090",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if strings.HasPrefix(cmd.Name(), cobra.ShellCompRequestCmd) {
				return nil
			}
			a.asJSON = a.wantsJSON(cmd)
			a.warnOfUnknown(cmd.Root())
			if err := a.refuseEmpty(cmd); err != nil {
				return err
			}
			if cmd.Annotations[collects] != "" {
				return nil
			}
			if err := a.fromEnvironment(cmd); err != nil {
				return &configError{err}
			}
			return nil
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddCommand(a.demo(), a.relay(), a.configuration(), a.migrate(), a.status(), a.doctor(), a.bench(), a.events(), a.keys(), a.topics(), a.lanes(), a.relays(), a.pause(), a.resume(), a.replay(), a.prune(), a.inbox(), a.dlt(), a.jobs(), a.audit(), a.healthcheck(), a.version())
	root.SetHelpCommand(a.help())
	addCompletion(root)
	argumentsAreUsage(root)
	exitCodesInHelp(root)
	return root
}

// exitCodesInHelp ends the help of every command that does something with its exit codes, where it does not list its own.
func exitCodesInHelp(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		exitCodesInHelp(sub)
	}
	if cmd.HasSubCommands() || strings.Contains(cmd.Long, "Exit codes:") {
		return
	}
	cmd.Long = cmp.Or(cmd.Long, cmd.Short+".") + "\n\n" + exitCodesHelp
}

// collects is the annotation of a command that reads the environment itself, to report what is wrong there with everything else.
const collects = "collects"

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// plural is "1 key" or "3 keys".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "y") && !strings.HasSuffix(noun, "ey") {
		noun = strings.TrimSuffix(noun, "y") + "ie"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
