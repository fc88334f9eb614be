package cli

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

func (a *app) pauseList() *cobra.Command {
	var db database
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List what is paused, by whom, since when and why",
		Long:    "list shows every pause, the oldest first. outbox resume takes one back.",
		Example: "  outbox pause list\n  outbox pause list --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			service, done, err := a.looker(cmd, &db)
			if err != nil {
				return err
			}
			defer done()
			list, err := service.Pauses(cmd.Context(), me())
			if err != nil {
				return err
			}
			if asJSON {
				return a.encode(struct {
					Pauses []operate.Pause `json:"pauses"`
				}{append([]operate.Pause{}, list...)})
			}
			return a.printPauses(list)
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func (a *app) printPauses(list []operate.Pause) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.stdout, "nothing is paused")
		return err
	}
	return a.table("PAUSED\tTOPIC\tKEY\tBY\tSINCE\tREASON", func(w io.Writer) {
		for _, p := range list {
			key := "-"
			if p.Scope == operate.ScopeKey {
				key = printable(abridged(p.PartitionKey))
			}
			what := p.Scope
			if p.Scope == operate.ScopeSource {
				what = "everything"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", what, cell(p.Topic), cmp.Or(key, `""`), cell(p.By), moment(p.Since), shown{}.sentence(p.Reason))
		}
	})
}
