package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

func (a *app) jobs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "jobs",
		Short:   "Look at the changes of many events or keys, and cancel them",
		Long:    `A job is a change of many events or keys that somebody has started.`,
		Example: "  outbox jobs list\n  outbox jobs list --state running --json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.jobsList(), a.jobsCancel())
	return cmd
}

func (a *app) jobsList() *cobra.Command {
	var f page
	var state string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List jobs, the newest first",
		Example: "  outbox jobs list\n  outbox jobs list --state running --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if problems := a.problems(cmd, f.checks()); problems != nil {
				return &configError{errors.Join(problems...)}
			}
			service, done, err := a.looker(cmd, &f.database)
			if err != nil {
				return err
			}
			defer done()
			p, err := service.Jobs(cmd.Context(), me(), operate.JobQuery{State: state, After: f.after, Limit: f.limit})
			if err != nil {
				return err
			}
			if f.json {
				return a.encode(p)
			}
			return a.printJobs(p)
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&state, "state", "", "running, done, cancelled or failed")
	completeWords(cmd, "state", []string{"running", "done", "cancelled", "failed"})
	return cmd
}

func (a *app) printJobs(p operate.JobPage) error {
	if len(p.Jobs) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no job matches")
		return err
	}
	err := a.table("ID\tSTATE\tWHAT\tDONE\tFAILED\tOF\tWHO\tSTARTED\tLAST SEEN\tNOTE", func(w io.Writer) {
		for _, j := range p.Jobs {
			fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", j.ID, j.State, cell(j.Verb), j.Done, j.Failed, j.Total, cell(j.Actor), moment(j.StartedAt), moment(j.SeenAt), cell(j.Note))
		}
	})
	if err != nil {
		return err
	}
	return a.foot(nil, "", p.Next)
}
