package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/operate"
)

// pruneFlags are those of the command.
type pruneFlags struct {
	database
	actorFlags
	older, dead, audit time.Duration
	keep               int64
	partitions         bool
	ahead              int
	dryRun, yes, json  bool
}

func (a *app) prune() *cobra.Command {
	f := &pruneFlags{}
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete settled events that are old",
		Long: `prune deletes settled events that were published longer ago than --older-than,
by the database's clock; with --keep the newest ones stay, whatever their age. An
event that is not published is never deleted, and a dead one only by --dead. It says
how many there are, and asks.

It deletes in small transactions, while everything is in use, and pauses between
them. Interrupt it when you like: what is deleted is deleted, and the next run goes
on. Rows that somebody has locked are left for the next run.

A relay with --retain does the same by itself, all the time.

With --partitions it looks at a table that is partitioned by ranges of id or of
created_at, and drops whole partitions: those of which all events are settled and
older than --older-than. With --ahead it creates partitions beyond the one that is
written to. Both need the table's owner, and hold up no writer. Rows of partitions
that stay are left alone then.

The rights: outbox migrate grants --role anna --operator --delete prints them.`,
		Example: `  outbox prune --older-than 168h --dry-run
  outbox prune --older-than 168h --yes
  outbox prune --older-than 24h --keep 1000000 --dead 2160h --audit 8760h
  outbox prune --partitions --older-than 168h --ahead 7 --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			request, err := a.pruneRequest(cmd, f)
			if err != nil {
				return err
			}
			return a.runPrune(cmd, f, request)
		},
	}
	f.database.flags(cmd)
	f.actorFlags.flags(cmd, "why, for the audit")
	flags := cmd.Flags()
	config.AgeVar(flags, &f.older, "older-than", 0, "delete settled events that were published so long ago; 0s: of any age")
	flags.Int64Var(&f.keep, "keep", 0, "keep the newest settled events, so many, whatever their age; 0 needs --older-than")
	config.AgeVar(flags, &f.dead, "dead", 0, "delete dead events that died so long ago")
	config.AgeVar(flags, &f.audit, "audit", 0, "delete rows of the audit, and requests and jobs, that ended so long ago")
	flags.BoolVar(&f.partitions, "partitions", false, "drop whole partitions, and no other settled events")
	flags.IntVar(&f.ahead, "ahead", 0, "create partitions until there are so many beyond the present one")
	flags.BoolVar(&f.dryRun, "dry-run", false, "count, and delete nothing")
	flags.BoolVar(&f.yes, "yes", false, "do not ask for confirmation")
	flags.BoolVar(&f.json, "json", false, "print a JSON object")
	return cmd
}

// pruneRequest makes the request of the flags. An age of nothing and no age differ.
func (a *app) pruneRequest(cmd *cobra.Command, f *pruneFlags) (operate.Prune, error) {
	given := cmd.Flags().Changed
	var request operate.Prune
	switch {
	case f.partitions && given("keep"):
		return request, &usageError{fmt.Errorf("--keep and --partitions exclude each other: partitions are dropped by their age; see %s --help", cmd.CommandPath())}
	case !f.partitions && given("ahead"):
		return request, &usageError{fmt.Errorf("--ahead needs --partitions; see %s --help", cmd.CommandPath())}
	case given("keep") && f.keep == 0 && !given("older-than"):
		return request, &usageError{fmt.Errorf("--keep 0 keeps no settled event: if all of them may go, say --older-than 0s; see %s --help", cmd.CommandPath())}
	case f.partitions && !given("older-than"):
		return request, &usageError{fmt.Errorf("--partitions needs --older-than, such as --older-than 168h; see %s --help", cmd.CommandPath())}
	}
	switch {
	case f.partitions:
		request.Partitions = &operate.PrunePartitions{OlderThan: f.older, Ahead: f.ahead}
	case given("older-than") || given("keep"):
		request.Events = &operate.PruneEvents{OlderThan: f.older, Keep: f.keep}
	}
	if given("dead") {
		request.Dead = &f.dead
	}
	if given("audit") {
		request.Audit = &f.audit
	}
	if request == (operate.Prune{}) {
		return request, &usageError{fmt.Errorf("say what may go: --older-than, --keep, --dead, --audit or --partitions; see %s --help", cmd.CommandPath())}
	}
	if err := a.refuse(cmd, []check{
		atLeast("older-than", &f.older, 0), between("keep", &f.keep, 0, operate.MaxPruneKeep), atLeast("dead", &f.dead, 0),
		atLeast("audit", &f.audit, 0), between("ahead", &f.ahead, 0, operate.MaxPruneAhead),
	}); err != nil {
		return request, err
	}
	return request, nil
}

func (a *app) runPrune(cmd *cobra.Command, f *pruneFlags, request operate.Prune) error {
	service, done, err := a.service(cmd, &f.database)
	if err != nil {
		return err
	}
	defer done()
	plan, err := service.PlanPrune(cmd.Context(), f.actor(), request)
	if err != nil {
		return err
	}
	switch {
	case f.dryRun && f.json:
		return errors.Join(a.encode(plan), plan.Err())
	case f.dryRun:
		return errors.Join(a.printPrunePlan(a.stdout, f.table, request, plan), plan.Err())
	case plan.Rows() == 0 && !plan.EventsEstimated && len(plan.Created)+len(plan.Dropped)+len(plan.Attached) == 0:
		return errors.Join(a.printPruned(f, request, plan.Pruned, plan.Kept), plan.Err())
	case !f.yes && f.json:
		return &plannedError{unasked(), plan}
	case !f.yes:
		if err := a.printPrunePlan(a.stderr, f.table, request, plan); err != nil {
			return err
		}
		if err := a.confirm(cmd, "Go on?", "--yes agrees for a script, --dry-run counts only"); err != nil {
			return err
		}
	}
	bar := newProgress(a.progressOut(), "rows")
	bar.expect(int(plan.Rows()))
	pruned, err := service.Prune(cmd.Context(), f.actor(), request, f.reason, func(p operate.Pruned) { bar.set(int(p.Rows())) })
	bar.end()
	if err != nil && cmd.Context().Err() != nil {
		err = errors.New("interrupted: what was deleted until then is deleted; run it again for the rest")
	}
	return errors.Join(a.printPruned(f, request, pruned, plan.Kept), err)
}

// printPrunePlan says what would be done, and what of it is an estimate.
func (a *app) printPrunePlan(out io.Writer, table string, request operate.Prune, plan operate.PrunePlan) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	about := ""
	if plan.EventsEstimated {
		about = "about "
	}
	fmt.Fprintf(w, "would delete from\t%s\n", table)
	pruneRows(w, request, plan.Pruned, about)
	pruneKept(w, plan.Kept)
	if plan.EventsEstimated {
		fmt.Fprintln(w, "\tcounted for some seconds, the rest is estimated")
	}
	return w.Flush()
}

// printPruned says what was done.
func (a *app) printPruned(f *pruneFlags, request operate.Prune, p operate.Pruned, kept map[string]string) error {
	if f.json {
		return a.encode(p)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "deleted from\t%s\n", f.table)
	pruneRows(w, request, p, "")
	if p.Skipped > 0 {
		fmt.Fprintf(w, "left alone\t%d, which somebody has locked or a foreign key or trigger holds\n", p.Skipped)
	}
	pruneKept(w, kept)
	return w.Flush()
}

// pruneRows has a line for everything that was asked for, also where there is nothing.
func pruneRows(w *tabwriter.Writer, request operate.Prune, p operate.Pruned, about string) {
	audit := request.Audit != nil
	for _, line := range []struct {
		name, about string
		asked       bool
		n           int64
	}{
		{"settled events", about, request.Events != nil, p.Events}, {"dead events", "", request.Dead != nil, p.Dead},
		{"audit", "", audit, p.Audit}, {"requests", "", audit, p.Requests}, {"jobs", "", audit, p.Jobs},
	} {
		if line.asked {
			fmt.Fprintf(w, "%s\t%s%d\n", line.name, line.about, line.n)
		}
	}
	if request.Partitions != nil && len(p.Created)+len(p.Dropped)+len(p.Attached) == 0 {
		fmt.Fprintln(w, "partitions\tnone created, none dropped")
	}
	if len(p.Created) > 0 {
		fmt.Fprintf(w, "partitions created\t%s\n", printable(strings.Join(p.Created, ", ")))
	}
	if len(p.Attached) > 0 {
		fmt.Fprintf(w, "partitions attached again\t%s, which a run that was killed had left detached\n", printable(strings.Join(p.Attached, ", ")))
	}
	if len(p.Dropped) > 0 {
		fmt.Fprintf(w, "partitions dropped\t%s, with about %d rows\n", printable(strings.Join(p.Dropped, ", ")), p.DroppedRows)
	}
}

func pruneKept(w *tabwriter.Writer, kept map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		fmt.Fprintf(w, "stays\t%s: %s\n", printable(name), kept[name])
	}
}
