package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

// failuresFlags are those of the command.
type failuresFlags struct {
	database
	consumer string
	limit    int
	full     bool
	json     bool
}

func (a *app) inboxFailures() *cobra.Command {
	var f failuresFlags
	cmd := &cobra.Command{
		Use:   "failures",
		Short: "List the records that consumers cannot handle so far, those that have failed for longest first",
		Long: `failures shows each record that a consumer of this database could not handle so far, with
how often it has tried and why it failed last. A record goes from the list when it is
handled or sent on, at the latest a minute after. Where a consumer gives up nothing, the
first of a key is what its key waits for. What is long is cut to the width of the
terminal; --full shows all of it.`,
		Example: "  outbox inbox failures\n  outbox inbox failures --consumer billing --full\n  outbox inbox failures --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.refuse(cmd, []check{between("limit", &f.limit, 1, operate.MaxPage)}); err != nil {
				return err
			}
			return a.runFailures(cmd, &f)
		},
	}
	f.database.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.consumer, "consumer", "", "only of this `name`, as outbox inbox list shows it")
	flags.IntVar(&f.limit, "limit", operate.DefaultPage, fmt.Sprintf("how many to list, 1 to %d", operate.MaxPage))
	flags.BoolVar(&f.json, "json", false, "print a JSON object")
	fullFlag(cmd, &f.full)
	return cmd
}

func (a *app) runFailures(cmd *cobra.Command, f *failuresFlags) error {
	service, done, err := a.looker(cmd, &f.database)
	if err != nil {
		return err
	}
	defer done()
	consumer := givenText(cmd, "consumer", &f.consumer)
	page, err := service.InboxFailures(cmd.Context(), me(), operate.InboxFailureQuery{Consumer: consumer, Limit: f.limit})
	if err == nil && len(page.Failures) == 0 && consumer != nil {
		if text := service.UnknownConsumer(cmd.Context(), me(), *consumer); text != "" {
			err = &operate.Error{Code: operate.CodeNotFound, Text: text}
		}
	}
	switch {
	case err != nil:
		return err
	case f.json:
		return a.encode(page)
	}
	return a.printFailures(page, shown{f.full})
}

func (a *app) printFailures(p operate.InboxFailurePage, show shown) error {
	if len(p.Failures) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no record fails")
		return err
	}
	rows := make([][]string, len(p.Failures))
	for i, f := range p.Failures {
		rows[i] = []string{
			whole.name(f.Consumer), whole.name(fmt.Sprintf("%s/%d/%d", f.Topic, f.Partition, f.Offset)), whole.name(f.EventID), whole.name(f.EventType),
			fmt.Sprint(f.Attempts), moment(f.FirstFailedAt), whole.sentence(f.LastError),
		}
	}
	head := []string{"CONSUMER", "RECORD", "EVENT", "TYPE", "ATTEMPTS", "SINCE", "LAST ERROR"}
	if err := a.fitted(show, head, rows, text(6, 24), name(2, 12), name(3, 12), name(1, 16), text(6, 10), name(0, 10)); err != nil || !p.More {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "there are more: --limit shows up to %d\n", operate.MaxPage)
	return err
}
