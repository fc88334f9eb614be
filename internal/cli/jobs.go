package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

func (a *app) jobs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "Look at the changes of many events or keys, and cancel them",
		Long: `A job is a change of many events or keys that somebody has started. A change of one
event or key is a request without a job, open until a relay has carried it out.`,
		Example: "  outbox jobs list\n  outbox jobs list --state running --json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.jobsList(), a.jobsCancel())
	return cmd
}

// jobStates are those that a job can be in.
var jobStates = []string{"running", "done", "cancelled", "failed"}

func (a *app) jobsList() *cobra.Command {
	var f page
	var state, verb, actor string
	var full bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, the newest first, and the open requests that belong to none",
		Long: `list shows a page of jobs, and at its end how to go on. The first page of those that run,
or of all, also has the open requests that belong to no job: their commands wait for a
relay to carry them out, or were killed. outbox jobs cancel ends either.`,
		Example: "  outbox jobs list\n  outbox jobs list --state running --json\n  outbox jobs list --verb replay --actor ann",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.refuse(cmd, append(f.checks(), oneOf("state", &state, jobStates))); err != nil {
				return err
			}
			q := operate.JobQuery{State: state, Verb: givenText(cmd, "verb", &verb), Actor: givenText(cmd, "actor", &actor), After: f.after, Limit: f.limit}
			return showLook(a, cmd, &f, func(s *operate.Service) (operate.JobPage, error) { return s.Jobs(cmd.Context(), me(), q) },
				func(p operate.JobPage) error { return a.printJobs(p, shown{full}) })
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&state, "state", "", "running, done, cancelled or failed")
	cmd.Flags().StringVar(&verb, "verb", "", "of this `verb`: "+strings.Join(operate.JobVerbs(), ", "))
	cmd.Flags().StringVar(&actor, "actor", "", "started by this `name`")
	fullFlag(cmd, &full)
	completeWords(cmd, "state", jobStates)
	completeWords(cmd, "verb", operate.JobVerbs())
	return cmd
}

func (a *app) printJobs(p operate.JobPage, show shown) error {
	if len(p.Jobs) == 0 {
		fmt.Fprintln(a.stdout, "no job matches")
		return a.printOpenRequests(p, show)
	}
	err := a.table("ID\tSTATE\tWHAT\tDONE\tFAILED\tOF\tTO\tWHO\tSTARTED\tLAST SEEN\tNOTE", func(w io.Writer) {
		for _, j := range p.Jobs {
			what, to := asked(j.Verb, j.Filter)
			fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", j.ID, j.State, cell(what), j.Done, j.Failed, j.Total, show.sentence(to), cell(j.Actor), moment(j.StartedAt), moment(j.SeenAt), show.sentence(j.Note))
		}
	})
	if err != nil {
		return err
	}
	if err := a.foot(nil, "", p.Next); err != nil {
		return err
	}
	return a.printOpenRequests(p, show)
}

// printOpenRequests shows what is asked for and not done, of no job.
func (a *app) printOpenRequests(p operate.JobPage, show shown) error {
	if len(p.Requests) == 0 {
		return nil
	}
	which := "open requests that belong to no job"
	if p.MoreRequests {
		which = fmt.Sprintf("the oldest %d open requests that belong to no job", len(p.Requests))
	}
	fmt.Fprintf(a.stdout, "\n%s, not carried out yet; outbox jobs cancel --request ID takes one back:\n", which)
	return a.table("REQUEST\tWHAT\tEVENT\tTOPIC\tKEY\tWHO\tSINCE\tREASON", func(w io.Writer) {
		for _, r := range p.Requests {
			event := "-"
			if r.Event != nil {
				event = fmt.Sprint(r.Event.ID)
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, cell(r.Verb), event, cell(r.Topic), show.key(r.PartitionKey), cell(r.Actor), moment(r.At), show.sentence(r.Reason))
		}
	})
}
