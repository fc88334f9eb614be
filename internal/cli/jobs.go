package cli

import (
	"fmt"
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
relay to carry them out, or were killed. outbox jobs cancel ends either. Notes, and what
else is long, are cut to the width of the terminal; --full shows all of it.`,
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
	rows := make([][]string, len(p.Jobs))
	for i, j := range p.Jobs {
		what, to := asked(j.Verb, j.Filter)
		rows[i] = []string{fmt.Sprint(j.ID), j.State, whole.name(what), jobCount(j), whole.sentence(to), whole.name(j.Actor), moment(j.StartedAt), whole.sentence(jobNote(j))}
	}
	err := a.fitted(show, []string{"ID", "STATE", "WHAT", "DONE", "TO", "WHO", "STARTED", "NOTE"}, rows, text(7, 24), text(4, 20), text(5, 8), text(2, 14), text(7, 10))
	if err != nil {
		return err
	}
	if err := a.foot(nil, "", p.Next); err != nil {
		return err
	}
	return a.printOpenRequests(p, show)
}

// jobCount is how far a job is, as "3 of 5, 1 failed".
func jobCount(j operate.JobEntry) string {
	text := fmt.Sprintf("%d of %d", j.Done, j.Total)
	if j.Failed > 0 {
		text += fmt.Sprintf(", %d failed", j.Failed)
	}
	return text
}

// jobNote says of a job that runs when it was last seen: one whose process was killed is not seen again.
func jobNote(j operate.JobEntry) string {
	if j.State != "running" {
		return j.Note
	}
	return strings.TrimSuffix(fmt.Sprintf("last seen %s; %s", moment(j.SeenAt), j.Note), "; ")
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
	rows := make([][]string, len(p.Requests))
	for i, r := range p.Requests {
		event := "-"
		if r.Event != nil {
			event = fmt.Sprint(r.Event.ID)
		}
		rows[i] = []string{fmt.Sprint(r.ID), whole.name(r.Verb), event, whole.name(r.Topic), whole.key(r.PartitionKey), whole.name(r.Actor), moment(r.At), whole.sentence(r.Reason)}
	}
	return a.fitted(show, []string{"REQUEST", "WHAT", "EVENT", "TOPIC", "KEY", "WHO", "SINCE", "REASON"}, rows, text(7, 15), text(5, 8), text(3, 20), text(4, 15))
}
