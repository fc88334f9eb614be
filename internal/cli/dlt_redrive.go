package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outbox-relay/outbox/operate"
)

type redriveFlags struct {
	dltFlags
	actorFlags
	letterFilter
	to, consumer            string
	rate                    int
	all, again, dryRun, yes bool
}

func (a *app) dltRedrive() *cobra.Command {
	f := &redriveFlags{}
	cmd := &cobra.Command{
		Use:   "redrive TOPIC… | TOPIC/PARTITION/OFFSET…",
		Short: "Send dead letters back to the topics that they are from",
		Long: `redrive sends letters back to their original topics, into the partitions that they were
in, or to --to: those that are named, or those that the flags find, or with --all all
of a topic, in the order of each partition, at --rate letters a second. Key, value and
headers are those of the record, byte for byte, without the headers that say of the
failure. The event id is the same: a consumer that keeps an inbox skips what it has
handled. Mend the cause first: what fails again is in the dead-letter topic again.

What was sent is remembered in the database, and left out by the next redrive, but
for --again; the letters stay where they are: outbox dlt purge deletes them. When the
command or the machine dies, run the same command again: a page of letters at most is
sent twice. Letters that cannot go, because their topic is gone or no header names it,
are reported at the end, and the others go; of a key whose letter fails the later ones
are held back.

--dry-run counts by topic and error, and with --consumer how many of them the inbox of
that consumer has handled already.

The number is shown first, and on a terminal it is asked for; a script says --yes. It
runs as a job, with a progress bar on a terminal: outbox jobs list shows it, Ctrl-C or
outbox jobs cancel ends it.

Exit codes:
  0   all of it was sent, or nothing matched
  1   it failed, or some of it, or it was cancelled: the report says what was sent
  2   usage: the command line cannot be understood
  3   not confirmed: nothing was sent
  78  configuration: a setting, a password, a name or a right that waiting does not mend`,
		Example: `  outbox dlt redrive shop.order --error "no such account" --consumer billing --dry-run
  outbox dlt redrive shop.order-dlt/0/17 --yes
  outbox dlt redrive shop.order --all --rate 50 --reason "the account service is mended" --yes`,
		Args:        someArguments("a topic, or letters as TOPIC/PARTITION/OFFSET"),
		Annotations: map[string]string{collects: "environment"},
		RunE:        func(cmd *cobra.Command, args []string) error { return a.runRedrive(cmd, f, args) },
	}
	f.dltFlags.flags(cmd)
	f.actorFlags.flags(cmd, "why, for the audit")
	f.letterFilter.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "send them to this `topic` instead")
	flags.StringVar(&f.consumer, "consumer", "", "count how many the inbox of this `name` has handled")
	flags.IntVar(&f.rate, "rate", operate.DefaultReplayRate, "letters a second")
	flags.BoolVar(&f.all, "all", false, "all letters of the topics, where nothing narrows it")
	flags.BoolVar(&f.again, "again", false, "send those as well that were sent back already")
	flags.BoolVar(&f.dryRun, "dry-run", false, "count, and send nothing")
	flags.BoolVar(&f.yes, "yes", false, "do not ask: whatever the number is")
	return cmd
}

// request is what the flags say.
func (f *redriveFlags) request(a *app, cmd *cobra.Command, args []string) (r operate.Redrive, err error) {
	if err := a.understood(cmd, []check{between("rate", &f.rate, 1, operate.MaxReplayRate)}); err != nil {
		return r, err
	}
	if r.LetterSelection, err = f.selection(args); err != nil {
		return r, err
	}
	if r.LetterFilter, err = f.filter(a, cmd); err != nil {
		return r, err
	}
	narrowed := false
	cmd.Flags().Visit(func(flag *pflag.Flag) { narrowed = narrowed || slices.Contains(letterNarrowing, flag.Name) })
	switch {
	case len(r.Refs) > 0 && (narrowed || f.all || len(r.Topics) > 0):
		return r, &usageError{fmt.Errorf("name letters, or topics with flags: not both; see %s --help", cmd.CommandPath())}
	case len(r.Topics) > 0 && !narrowed && !f.all:
		return r, &usageError{fmt.Errorf("which ones? name letters as TOPIC/PARTITION/OFFSET, or filter by flags such as --error, or say --all; see %s --help", cmd.CommandPath())}
	case narrowed && f.all:
		return r, &usageError{errors.New("--all is for a command that nothing narrows: leave it out")}
	}
	r.To, r.Again, r.Rate, r.Consumer, r.Reason = f.to, f.again, f.rate, f.consumer, f.reason
	return r, nil
}

func (a *app) runRedrive(cmd *cobra.Command, f *redriveFlags, args []string) error {
	r, err := f.request(a, cmd, args)
	if err != nil {
		return err
	}
	s, k, done, err := a.letters(cmd, &f.dltFlags)
	if err != nil {
		return err
	}
	defer done()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the command at once.
	defer context.AfterFunc(ctx, stop)()
	bar := newJobBar(a.progressOut())
	defer bar.end()
	c := operate.RedriveConfirmed{Any: f.yes}
	if f.dryRun || !f.yes {
		plan, err := s.PlanRedrive(ctx, f.actor(), r, k, bar.show)
		bar.end()
		switch {
		case err != nil:
			return err
		case f.dryRun && f.json:
			return a.encode(plan)
		case f.dryRun:
			a.describeRedrive(a.stdout, r, plan)
			return nil
		case plan.Count > 0:
			if err := a.agreeRedrive(cmd, r, plan); err != nil {
				return err
			}
		}
		c.Count, c.Through = plan.Count, plan.Through
	}
	report, err := s.Redrive(ctx, f.actor(), r, c, k, bar.show)
	bar.end()
	return a.printReport(report, err, f.json)
}

func (a *app) agreeRedrive(cmd *cobra.Command, r operate.Redrive, plan operate.RedrivePlan) error {
	if a.asJSON {
		return &plannedError{unasked(), plan}
	}
	a.describeRedrive(a.stderr, r, plan)
	return a.confirm(cmd, fmt.Sprintf("Send %s back?", plural(int(plan.Count), "letter")), "--yes agrees for a script, --dry-run counts only")
}

// describeRedrive says what would be sent.
func (a *app) describeRedrive(out io.Writer, r operate.Redrive, p operate.RedrivePlan) {
	if p.Letters == 0 {
		fmt.Fprintln(out, "no letter matches: nothing to do")
		return
	}
	fmt.Fprintf(out, "redrive would send %s\n", lettersOf(p.Count, p.Events))
	for _, t := range p.Topics {
		fmt.Fprintf(out, "  %d to topic %s\n", t.Count, cell(t.Topic))
	}
	for _, e := range p.Errors {
		fmt.Fprintf(out, "  %d had failed: %s\n", e.Count, noteLine(e.Text))
	}
	for _, e := range p.Refused {
		fmt.Fprintf(out, "  %d cannot be sent: %s\n", e.Count, noteLine(e.Text))
	}
	if p.Redriven > 0 && p.Count == 0 {
		fmt.Fprintf(out, "  %d were sent back already; --again sends them as well\n", p.Redriven)
	}
	if p.Handled != nil {
		fmt.Fprintf(out, "  the inbox of %s has handled %d of them, and will skip those\n", cell(r.Consumer), *p.Handled)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(out, "  note: %s\n", noteLine(n))
	}
}
