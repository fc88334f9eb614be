package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

func (a *app) inbox() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Look at what consumers have handled, and have them forget it",
		Long: `inbox is about the table outbox.inbox, in which the consumers of this database
remember the events that they have handled.`,
		Example: "  outbox inbox list\n  outbox inbox failures\n  outbox inbox forget --consumer billing --from 2h --dry-run",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.inboxList(), a.inboxFailures(), a.inboxForget())
	return cmd
}

func (a *app) inboxList() *cobra.Command {
	var db database
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the consumers that remember events in this database",
		Long: `list shows each consumer with how many events it remembers, from when to when, and
how many records it could not handle yet. It counts at most 30,000 events of each, and
marks the number with + when there are more.`,
		Example: "  outbox inbox list\n  outbox inbox list --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			service, done, err := a.looker(cmd, &db)
			if err != nil {
				return err
			}
			defer done()
			list, err := service.InboxConsumers(cmd.Context(), me())
			if err != nil {
				return err
			}
			if asJSON {
				return a.encode(struct {
					Consumers []operate.InboxConsumer `json:"consumers"`
				}{list})
			}
			return a.printConsumers(list)
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func (a *app) printConsumers(list []operate.InboxConsumer) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no consumer remembers events in this database")
		return err
	}
	return a.table("CONSUMER\tREMEMBERED\tOLDEST\tNEWEST\tFAILING\tMOST ATTEMPTS\tLAST ERROR", func(w io.Writer) {
		for _, c := range list {
			oldest, newest, attempts := "-", "-", "-"
			if !c.Oldest.IsZero() {
				oldest, newest = moment(c.Oldest), moment(c.Newest)
			}
			if c.Failing > 0 {
				attempts = fmt.Sprint(c.Attempts)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", cell(c.Name), counted(c.Remembered, c.Capped), oldest, newest, c.Failing, attempts, shown{}.sentence(c.LastError))
		}
	})
}

// forgetFlags are those of the command.
type forgetFlags struct {
	database
	actorFlags
	consumer, from, until  string
	ids                    []string
	all, dryRun, yes, json bool
}

func (a *app) inboxForget() *cobra.Command {
	f := &forgetFlags{}
	cmd := &cobra.Command{
		Use:   "forget --consumer NAME",
		Short: "Have a consumer forget handled events, so that they are handled again when they come again",
		Long: `forget deletes what a consumer remembers of events: by their ids, by when they were
handled, or all. It says how many there are, and asks; with --yes it does neither.
Records of them that are delivered again, by outbox replay or outbox dlt redrive for
instance, are then handled again: what their handlers do happens another time.

Interrupt it when you like: what is forgotten is forgotten. The database's role needs
what outbox migrate grants --role ROLE --operator prints.`,
		Example: `  outbox inbox forget --consumer billing --event-id 0190f6c2-7d1e-7a55-8f0e-2f3c9a3d5b11
  outbox inbox forget --consumer billing --from 2h --dry-run
  outbox inbox forget --consumer search --all --yes --reason "the index is built anew"`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			request, err := a.forgetRequest(cmd, f)
			if err != nil {
				return err
			}
			return a.runForget(cmd, f, request)
		},
	}
	f.database.flags(cmd)
	f.actorFlags.flags(cmd, "why, for the audit")
	flags := cmd.Flags()
	flags.StringVar(&f.consumer, "consumer", "", "the consumer's `name`, as outbox inbox list shows it")
	flags.StringSliceVar(&f.ids, "event-id", nil, "an event `id`, whatever it looks like; several by commas, or again")
	flags.StringVar(&f.from, "from", "", "handled at or after this `time`: "+momentsHelp)
	flags.StringVar(&f.until, "until", "", "handled before this `time`, as of --from")
	flags.BoolVar(&f.all, "all", false, "all that the consumer has handled")
	flags.BoolVar(&f.dryRun, "dry-run", false, "count, and forget nothing")
	flags.BoolVar(&f.yes, "yes", false, "do not ask for confirmation")
	flags.BoolVar(&f.json, "json", false, "print a JSON object")
	return cmd
}

func (a *app) forgetRequest(cmd *cobra.Command, f *forgetFlags) (r operate.Forget, err error) {
	if strings.TrimSpace(f.consumer) == "" {
		return r, &usageError{fmt.Errorf("--consumer is needed: outbox inbox list shows the names; see %s --help", cmd.CommandPath())}
	}
	r = operate.Forget{Consumer: f.consumer, EventIDs: f.ids, All: f.all}
	if r.From, err = moments(f.from, a.now()); err != nil {
		return r, a.badFlag(cmd, "from", " %w", err)
	}
	if r.Until, err = moments(f.until, a.now()); err != nil {
		return r, a.badFlag(cmd, "until", " %w", err)
	}
	if err := r.Check(); err != nil {
		return r, &usageError{fmt.Errorf("%w: --event-id, --from, --until or --all; see %s --help", err, cmd.CommandPath())}
	}
	return r, nil
}

// forgotten is what the command prints as JSON.
type forgotten struct {
	Consumer string `json:"consumer"`
	Events   int64  `json:"events"`
	// AtLeast tells that there are more than were counted.
	AtLeast bool `json:"at_least,omitempty"`
}

func (a *app) runForget(cmd *cobra.Command, f *forgetFlags, r operate.Forget) error {
	service, done, err := a.service(cmd, &f.database)
	if err != nil {
		return err
	}
	defer done()
	if f.dryRun || !f.yes {
		counted, err := a.countForget(cmd, service, f, r)
		if err == nil && counted.Events == 0 {
			err = a.unknownConsumer(cmd, service, f, r)
		}
		switch {
		case err != nil:
			return err
		case f.dryRun || counted.Events == 0:
			return a.printForgotten(f, "would forget", counted)
		}
		if err := a.agreeForget(cmd, f, counted); err != nil {
			return err
		}
	}
	n, err := service.Forget(cmd.Context(), f.actor(), r, f.reason, nil)
	if err != nil && n == 0 {
		return err
	}
	if said := a.printForgotten(f, "forgot", forgotten{r.Consumer, n, false}); err == nil {
		err = said
	}
	return err
}

// unknownConsumer tells of a name that may have been mistyped.
func (a *app) unknownConsumer(cmd *cobra.Command, service *operate.Service, f *forgetFlags, r operate.Forget) error {
	if text := service.UnknownConsumer(cmd.Context(), f.actor(), r.Consumer); text != "" {
		return &operate.Error{Code: operate.CodeNotFound, Text: text}
	}
	return nil
}

// countForget counts. Events that are too many to be counted in time can be forgotten all the same.
func (a *app) countForget(cmd *cobra.Command, service *operate.Service, f *forgetFlags, r operate.Forget) (forgotten, error) {
	n, capped, err := service.CountForget(cmd.Context(), f.actor(), r)
	if operate.CodeOf(err) == operate.CodeTooSlow {
		return forgotten{}, &operate.Error{Code: operate.CodeTooSlow, Text: fmt.Sprintf(
			"the events that %s has handled could not be counted in some seconds: narrow them by --from and --until, or forget them without a count by --yes", printable(r.Consumer))}
	}
	return forgotten{r.Consumer, n, capped}, err
}

// agreeForget asks.
func (a *app) agreeForget(cmd *cobra.Command, f *forgetFlags, d forgotten) error {
	if f.json {
		return unasked()
	}
	fmt.Fprintf(a.stderr, "%s would forget %s events: those that come again are handled again\n", printable(d.Consumer), counted(d.Events, d.AtLeast))
	return a.confirm(cmd, "Go on?", "--yes agrees for a script, --dry-run counts only")
}

func (a *app) printForgotten(f *forgetFlags, what string, d forgotten) error {
	if f.json {
		return a.encode(d)
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s %s events\n", printable(d.Consumer), what, counted(d.Events, d.AtLeast))
	return err
}
