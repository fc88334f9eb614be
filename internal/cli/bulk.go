package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/outbox-relay/outbox/operate"
)

// bulkFlags are those of every command that changes many things.
type bulkFlags struct {
	actorFlags
	all, yes, dryRun, json bool
}

func (f *bulkFlags) flags(cmd *cobra.Command, reason, what string) {
	f.actorFlags.flags(cmd, reason)
	cmd.Flags().BoolVar(&f.all, "all", false, "all "+what+": needed where nothing else says which")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask: whatever the number is")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "count, and change nothing")
	cmd.Flags().BoolVar(&f.json, "json", false, "print a JSON object: the plan of a dry run, or the report")
}

// bulkHelp ends the help of such commands.
const bulkHelp = `The number is shown first, and on a terminal it is asked for; a script says --yes,
or --dry-run to count only. It runs as a job, in batches, with a progress bar on a
terminal: outbox jobs list shows it, Ctrl-C or outbox jobs cancel ends it. What is
done by then stays done, and the report says what that was.

Exit codes:
  0   all of it was done, or nothing matched
  1   it failed, or some of it: was not found, or was left because the job was cancelled
  2   usage: the command line cannot be understood, or a value on it cannot be
  3   not confirmed: nothing was changed
  78  configuration: a setting of the environment or of a file that cannot be, or a
      password, a name or a right that waiting does not mend`

// narrowing are the flags that narrow a filter.
var narrowing = []string{"state", "id", "topic", "key", "empty-key", "type", "code", "aggregate-type", "aggregate-id", "error", "older-than", "newer-than", "from", "until", "min-id", "max-id"}

// narrowed refuses a change of everything that nobody has asked for by name.
func (f *bulkFlags) narrowed(cmd *cobra.Command, args []string) error {
	var filters []string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if slices.Contains(narrowing, flag.Name) {
			filters = append(filters, flag.Name)
		}
	})
	given := len(args)+len(filters) > 0
	named := len(args) > 0 || slices.Contains(filters, "id")
	switch {
	case named && slices.ContainsFunc(filters, func(name string) bool { return name != "id" }):
		return &usageError{errors.New("name events by their ids, or filter them by flags: not both")}
	case !given && !f.all && cmd.Flags().Lookup("id") == nil:
		return &usageError{fmt.Errorf("which ones? filter by flags such as --topic and --key, or say --all; see %s --help", cmd.CommandPath())}
	case !given && !f.all:
		return &usageError{fmt.Errorf("which ones? name ids, or filter by flags such as --topic, or say --all; see %s --help", cmd.CommandPath())}
	case given && f.all:
		return &usageError{errors.New("--all is for a command that nothing narrows: leave it out")}
	}
	return nil
}

// runner does a bulk change.
type runner func(ctx context.Context, c operate.Confirmed, progress func(operate.Progress)) (operate.Report, error)

// bulk counts, asks, runs and reports.
func (a *app) bulk(cmd *cobra.Command, s *operate.Service, f *bulkFlags, b operate.Bulk, run runner) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the command at once.
	defer context.AfterFunc(ctx, stop)()
	bar := newJobBar(a.progressOut())
	defer bar.end()
	c := operate.Confirmed{Any: f.yes}
	if f.dryRun || !f.yes {
		plan, err := s.Plan(ctx, f.actor(), b, bar.show)
		bar.end()
		if err != nil {
			return err
		}
		if f.dryRun {
			return a.printBulkPlan(b, plan, f.json)
		}
		if plan.Count > 0 {
			if err := a.agree(cmd, b, plan); err != nil {
				return err
			}
		}
		c.Count, c.Through = plan.Count, plan.Through
	}
	report, err := run(ctx, c, bar.show)
	bar.end()
	return a.printReport(report, err, f.json)
}

// unconfirmed is the refusal of a change that nobody has agreed to.
func unconfirmed(advice string) error {
	return operate.Refuse(operate.CodeUnconfirmed, "not confirmed: nothing was changed; %s", advice)
}

// unasked is the refusal where JSON was asked for: a program reads there, and could not answer.
func unasked() error {
	return unconfirmed("with --json nothing is asked: --yes agrees, --dry-run counts only")
}

// agree shows what would be touched, and asks. A program is told both at once.
func (a *app) agree(cmd *cobra.Command, b operate.Bulk, plan operate.Plan) error {
	if a.asJSON {
		return &plannedError{unasked(), plan}
	}
	a.describe(a.stderr, b, plan)
	return a.confirm(cmd, fmt.Sprintf("%s %s?", titled(string(b.Verb)), thing(b, plan.Count)), "--yes agrees for a script, --dry-run counts only")
}

// confirm asks on a terminal, and fails unless the answer is yes. Elsewhere nobody could answer. advice is for scripts.
func (a *app) confirm(cmd *cobra.Command, question, advice string) error {
	file, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return unconfirmed("there is no terminal to ask on: " + advice)
	}
	return a.ask(cmd.Context(), file, question)
}

// ask waits for a line. An interrupt is a no: the reader is left behind, for the process ends.
func (a *app) ask(ctx context.Context, in io.Reader, question string) error {
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	type reply struct {
		text string
		err  error
	}
	replies := make(chan reply, 1)
	go func() {
		text, err := bufio.NewReader(in).ReadString('\n')
		replies <- reply{text, err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return unconfirmed("it was interrupted")
	case r := <-replies:
		if r.err != nil && !errors.Is(r.err, io.EOF) {
			return fmt.Errorf("read the answer: %w", r.err)
		}
		switch strings.ToLower(strings.TrimSpace(r.text)) {
		case "y", "yes":
			return nil
		}
		return unconfirmed("--yes answers for a script")
	}
}

func titled(verb string) string { return strings.ToUpper(verb[:1]) + verb[1:] }

// thing is "3 keys" or "1 event".
func thing(b operate.Bulk, n int64) string {
	if b.Keys != nil {
		return plural(int(n), "key")
	}
	return plural(int(n), "event")
}

// describe says what would be touched.
func (a *app) describe(out io.Writer, b operate.Bulk, p operate.Plan) {
	if p.Count == 0 {
		fmt.Fprintln(out, nothingMatches(b))
	} else {
		fmt.Fprintf(out, "%s would touch %s\n", b.Verb, thing(b, p.Count))
	}
	const most = 20
	for i, t := range p.Topics {
		if i == most {
			fmt.Fprintf(out, "  and %d more topics\n", len(p.Topics)-most)
			break
		}
		fmt.Fprintf(out, "  %d of topic %s\n", t.Count, printable(abridged(t.Topic)))
	}
	if p.AlreadyDone > 0 {
		fmt.Fprintf(out, "  %d named need nothing any more\n", p.AlreadyDone)
	}
	for _, r := range p.Refused {
		fmt.Fprintf(out, "  %d named cannot: %s%s\n", r.Count, printable(r.Text), ofIDs(r.IDs))
	}
	if len(p.Missing) > 0 {
		fmt.Fprintf(out, "  %d named are not there: %s\n", len(p.Missing), someOf(p.Missing))
	}
	if p.Count > 0 {
		for _, n := range p.Notes {
			fmt.Fprintf(out, "  note: %s\n", noteLine(n))
		}
		describeOvertaken(out, p.Overtaken)
	}
}

// describeOvertaken names the keys that a restore meets with newer events out already, each in a line.
func describeOvertaken(out io.Writer, o *operate.OvertakenEvents) {
	if o == nil || len(o.Named) == 0 {
		return
	}
	for i, k := range o.Named {
		if i == 0 {
			fmt.Fprintln(out, "  these keys have the most events that come behind newer ones:")
		}
		fmt.Fprintf(out, "    %d of key %s of topic %s\n", k.Count, shown{}.key(k.PartitionKey), cell(k.Topic))
	}
	if more := o.Keys - int64(len(o.Named)); more > 0 {
		fmt.Fprintf(out, "    and %s more\n", plural(int(more), "key"))
	}
}

func nothingMatches(b operate.Bulk) string {
	if b.Keys != nil {
		return "no parked key matches: nothing to do"
	}
	return "no event matches: nothing to do"
}

func someOf(ids []string) string {
	const most = 10
	if len(ids) <= most {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
}

func (a *app) printBulkPlan(b operate.Bulk, p operate.Plan, asJSON bool) error {
	if asJSON {
		return a.encode(p)
	}
	a.describe(a.stdout, b, p)
	return nil
}

// printReport prints what was done, and fails unless all of it was.
func (a *app) printReport(r operate.Report, err error, asJSON bool) error {
	if err != nil && r.Job == 0 {
		return err
	}
	var printed error
	if asJSON {
		printed = a.encode(r)
	} else {
		a.sayReport(r)
	}
	switch {
	case err != nil:
		return err
	case r.Failed+r.NotFound+r.Untouched > 0:
		return &quietError{}
	}
	return printed
}

func (a *app) sayReport(r operate.Report) {
	if r.Total == 0 {
		fmt.Fprintln(a.stdout, "nothing matches: nothing was changed")
		return
	}
	line := fmt.Sprintf("%s: %d of %d done", r.Verb, r.Done, r.Total)
	for _, part := range []struct {
		n    int64
		text string
	}{
		{r.AlreadyDone, "already done"}, {r.Failed, "failed"}, {r.NotFound, "not found any more"}, {r.Untouched, "left as they were"},
	} {
		if part.n > 0 {
			line += fmt.Sprintf(", %d %s", part.n, part.text)
		}
	}
	if r.Job != 0 {
		line += fmt.Sprintf(" (job %d, %s)", r.Job, r.State)
	}
	fmt.Fprintln(a.stdout, line)
	for _, f := range r.Reasons {
		fmt.Fprintf(a.stdout, "  %d failed: %s%s\n", f.Count, printable(f.Text), ofIDs(f.IDs))
	}
	if r.Note != "" && r.State == operate.JobCancelled {
		fmt.Fprintf(a.stdout, "  %s\n", printable(r.Note))
	}
	if r.Again != "" {
		// A command that can be copied.
		fmt.Fprintf(a.stdout, "  %s\n", noteLine(r.Again))
	}
	if r.Done > 0 && (r.Verb == operate.VerbUnpark || r.Verb == operate.VerbRetry) {
		fmt.Fprintln(a.stdout, "  if the cause is still there the keys are parked again; see outbox keys list")
	}
	if len(r.Missing) > 0 {
		fmt.Fprintf(a.stdout, "  not there: %s\n", someOf(r.Missing))
	}
}

// ofIDs names events behind what is said of them.
func ofIDs(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return " (" + someOf(ids) + ")"
}

// progressOut is where progress is shown: nowhere, when stderr is for a JSON object.
func (a *app) progressOut() io.Writer {
	if a.asJSON {
		return io.Discard
	}
	return a.stderr
}

// jobBar shows how far a job is: as a bar on a terminal, and elsewhere in a line now and then.
type jobBar struct {
	out  io.Writer
	bar  *progress
	said time.Time
	now  func() time.Time
}

const sayEvery = 5 * time.Second

func newJobBar(out io.Writer) *jobBar {
	return &jobBar{out: out, bar: newProgress(out, "done"), said: time.Now(), now: time.Now}
}

func (j *jobBar) show(p operate.Progress) {
	if j.bar.visible && p.Job != 0 {
		j.bar.expect(int(p.Total))
		j.bar.set(int(p.Done + p.Failed))
		return
	}
	if j.now().Sub(j.said) < sayEvery {
		return
	}
	j.said = j.now()
	if p.Job == 0 {
		fmt.Fprintf(j.out, "counting: %d so far\n", p.Done)
		return
	}
	fmt.Fprintf(j.out, "job %d: %d of %d done, %d failed\n", p.Job, p.Done, p.Total, p.Failed)
}

func (j *jobBar) end() { j.bar.end() }
