package cli

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

type dltPurgeFlags struct {
	dltFlags
	actorFlags
	before, failedBy string
	lose             int64
	all, dryRun, yes bool
}

func (a *app) dltPurge() *cobra.Command {
	f := &dltPurgeFlags{}
	cmd := &cobra.Command{
		Use:   "purge TOPIC… | TOPIC/PARTITION/OFFSET…",
		Short: "Delete dead letters, from the beginning of each partition on",
		Long: `purge deletes letters for good. Kafka can delete only what is before an offset: with
--before, everything in front of the first letter of that time or a later one, in each
partition; with a letter, that one and all that is before it in its partition; with
--all, everything that is there now. Single letters cannot be deleted: --failed-by ends
in front of the first letter of another consumer, in each partition.

It reads what would go, and counts the letters that nobody has sent back: those would be
nowhere then. Unless there are none, it asks for their number on a terminal, and a script
has to name it: --lose 17. If the number is another one, nothing is deleted.`,
		Example: `  outbox dlt purge shop.order --before 30d --dry-run
  outbox dlt purge shop.order-dlt/0/17 --yes
  outbox dlt purge shop.order --all --lose 17 --yes --reason "of a test"`,
		Args:        someArguments("a topic, or letters as TOPIC/PARTITION/OFFSET"),
		Annotations: map[string]string{collects: "environment"},
		RunE:        func(cmd *cobra.Command, args []string) error { return a.runDLTPurge(cmd, f, args) },
	}
	f.dltFlags.flags(cmd)
	f.actorFlags.flags(cmd, "why, for the audit")
	flags := cmd.Flags()
	flags.StringVar(&f.before, "before", "", "delete what is in front of the first letter of this `time`: "+momentsHelp)
	flags.StringVar(&f.failedBy, "failed-by", "", "end in front of the first letter that another consumer than this `name` gave up")
	flags.BoolVar(&f.all, "all", false, "delete all that is there")
	flags.Int64Var(&f.lose, "lose", 0, "agree to lose so many letters that nobody has sent back")
	flags.BoolVar(&f.dryRun, "dry-run", false, "count, and delete nothing")
	flags.BoolVar(&f.yes, "yes", false, "do not ask; letters that would be lost need --lose as well")
	return cmd
}

func (f *dltPurgeFlags) request(a *app, cmd *cobra.Command, args []string) (p operate.LetterPurge, err error) {
	if err := a.understood(cmd, []check{atLeast("lose", &f.lose, 0)}); err != nil {
		return p, err
	}
	selection, err := f.selection(args)
	if err != nil {
		return p, err
	}
	p = operate.LetterPurge{Topics: selection.Topics, Through: selection.Refs, All: f.all, FailedBy: f.failedBy, Force: f.force, Reason: f.reason}
	if p.Before, err = moments(f.before, a.now()); err != nil {
		return p, a.badFlag(cmd, "before", " %w", err)
	}
	switch {
	case len(p.Topics) > 0 && len(p.Through) > 0, len(p.Through) > 0 && (f.all || f.before != "" || f.failedBy != ""):
		return p, &usageError{fmt.Errorf("name letters, or topics with --before, --all or --failed-by: not both; see %s --help", cmd.CommandPath())}
	case len(p.Topics) > 0 && f.all == (f.before != ""):
		return p, &usageError{fmt.Errorf("how far? say --before a time, or --all, or name the last letter to go as TOPIC/PARTITION/OFFSET; see %s --help", cmd.CommandPath())}
	}
	return p, nil
}

func (a *app) runDLTPurge(cmd *cobra.Command, f *dltPurgeFlags, args []string) error {
	p, err := f.request(a, cmd, args)
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
	bar := newJobBar(a.progressOut())
	defer bar.end()
	plan, err := s.PlanLetterPurge(ctx, f.actor(), p, k, bar.show)
	bar.end()
	switch {
	case err != nil:
		return err
	case f.dryRun && f.json:
		return a.encode(plan)
	case f.dryRun:
		a.describePurge(a.stdout, plan)
		return nil
	case plan.Letters == 0 && len(plan.Partitions) == 0:
		return a.printPurged(plan, nil, f.json)
	}
	c := operate.LetterPurgeConfirmed{Letters: plan.Letters, Lost: plan.Lost, Plan: &plan}
	if err := a.agreePurge(cmd, f, plan); err != nil {
		return err
	}
	purged, err := s.PurgeLetters(ctx, f.actor(), p, c, k, bar.show)
	bar.end()
	return a.printPurged(purged, err, f.json)
}

// agreePurge asks, unless the number of the letters that would be lost was named.
func (a *app) agreePurge(cmd *cobra.Command, f *dltPurgeFlags, plan operate.LetterPurgePlan) error {
	advice := "--yes agrees for a script, --dry-run counts only"
	if plan.Lost > 0 {
		advice = fmt.Sprintf("%s that nobody has sent back would be lost: outbox dlt redrive sends letters back; --yes --lose %d agrees for a script, --dry-run counts only", plural(int(plan.Lost), "letter"), plan.Lost)
	}
	switch {
	case plan.Lost != f.lose && (f.yes || f.lose != 0) && plan.Lost > 0:
		return a.withPlan(unconfirmed(advice), plan)
	case plan.Lost == 0 && f.lose != 0:
		return a.withPlan(unconfirmed(fmt.Sprintf("--lose is %d, and none would be lost: leave it out", f.lose)), plan)
	case f.yes:
		return nil
	case a.asJSON:
		return &plannedError{unconfirmed("with --json nothing is asked: " + advice), plan}
	}
	a.describePurge(a.stderr, plan)
	question := fmt.Sprintf("Delete %s?", plural(int(plan.Letters), "letter"))
	if plan.Lost > 0 {
		question = fmt.Sprintf("Delete %s, and lose %d of them?", plural(int(plan.Letters), "letter"), plan.Lost)
	}
	return a.confirm(cmd, question, advice)
}

// withPlan says what would be done beside a refusal.
func (a *app) withPlan(err error, plan operate.LetterPurgePlan) error {
	if a.asJSON {
		return &plannedError{err, plan}
	}
	a.describePurge(a.stderr, plan)
	return err
}

func (a *app) describePurge(out io.Writer, p operate.LetterPurgePlan) {
	if len(p.Partitions) == 0 {
		describeStops(out, p)
		fmt.Fprintln(out, nothing(p)+": nothing to do")
		return
	}
	fmt.Fprintf(out, "purge would delete %s\n", plural(int(p.Letters), "letter"))
	for _, part := range p.Partitions {
		fmt.Fprintf(out, "  %d of partition %d of %s: all that is before offset %d, %d of them not sent back\n", part.Letters, part.Partition, cell(part.Topic), part.Before, part.Lost)
	}
	describeStops(out, p)
	if p.Kept > 0 {
		fmt.Fprintf(out, "  %s of the relay would not be lost: the events are among the dead ones, and outbox events restore puts them back\n", plural(int(p.Kept), "letter"))
	}
	if p.Lost > 0 {
		fmt.Fprintf(out, "  %s would be lost, which nobody has sent back\n", plural(int(p.Lost), "letter"))
	}
	for _, e := range p.Errors {
		fmt.Fprintf(out, "  %d of those had failed: %s\n", e.Count, noteLine(e.Text))
	}
}

// describeStops names the letters that end a purge before its time.
func describeStops(out io.Writer, p operate.LetterPurgePlan) {
	for _, s := range p.Stops {
		who := "whose consumer no header names"
		if s.Consumer != "" {
			who = "of " + cell(s.Consumer)
		}
		fmt.Fprintf(out, "  partition %d of %s ends in front of the letter at offset %d, %s\n", s.Partition, cell(s.Topic), s.Offset, who)
	}
}

func nothing(p operate.LetterPurgePlan) string {
	if len(p.Stops) > 0 {
		return "nothing may go"
	}
	return "nothing is there"
}

func (a *app) printPurged(p operate.LetterPurgePlan, err error, asJSON bool) error {
	if err != nil && len(p.Partitions) == 0 {
		return err
	}
	var printed error
	if asJSON {
		printed = a.encode(p)
	} else {
		a.sayPurged(p)
	}
	if err != nil {
		return err
	}
	return printed
}

func (a *app) sayPurged(p operate.LetterPurgePlan) {
	describeStops(a.stdout, p)
	if len(p.Partitions) == 0 {
		fmt.Fprintln(a.stdout, nothing(p)+": nothing was deleted")
	}
	for _, part := range p.Partitions {
		if part.Error != "" {
			fmt.Fprintf(a.stdout, "not deleted: partition %d of %s\n", part.Partition, cell(part.Topic))
			continue
		}
		fmt.Fprintf(a.stdout, "deleted %s of partition %d of %s: it begins at offset %d now\n", plural(int(part.Letters), "letter"), part.Partition, cell(part.Topic), part.Before)
	}
}
