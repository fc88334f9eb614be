package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

func (a *app) jobsCancel() *cobra.Command {
	var db database
	var who actorFlags
	var asJSON bool
	var request int64
	cmd := &cobra.Command{
		Use:   "cancel ID | --request ID",
		Short: "Cancel a job that is running, wherever it runs, or take one open request back",
		Long: `cancel ends a job between two batches. What is done stays done; requests that no relay
has carried out yet are taken back. The command that runs the job reports what it did.

With --request it takes back a request that belongs to no job: the change of one event
or key whose command was killed before it was carried out.`,
		Example: "  outbox jobs cancel 17\n  outbox jobs cancel --request 4711",
		Args: func(cmd *cobra.Command, args []string) error {
			if asked := cmd.Flags().Changed("request"); len(args) > 1 || asked == (len(args) == 1) {
				return fmt.Errorf("jobs cancel needs the id of one job, or --request and the id of one request; outbox jobs list shows both")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id, what := request, "request"
			if len(args) == 1 {
				what = "job"
				var err error
				if id, err = strconv.ParseInt(args[0], 10, 64); err != nil || id <= 0 {
					return &usageError{fmt.Errorf("jobs cancel %q: want the id of a job; outbox jobs list shows them", args[0])}
				}
			}
			s, done, err := a.service(cmd, &db)
			if err != nil {
				return err
			}
			defer done()
			cancel, did, state := s.Cancel, "is cancelled", operate.JobCancelled
			if what == "request" {
				cancel, did, state = s.CancelRequest, "is taken back: it will not be carried out", "withdrawn"
			}
			if err := cancel(cmd.Context(), who.actor(), id, who.reason); err != nil {
				return err
			}
			if asJSON {
				return a.encode(map[string]string{what: strconv.FormatInt(id, 10), "state": state})
			}
			_, err = fmt.Fprintf(a.stdout, "%s %d %s\n", what, id, did)
			return err
		},
	}
	db.flags(cmd)
	who.flags(cmd, "why, for the audit")
	cmd.Flags().Int64Var(&request, "request", 0, "the `id` of an open request that belongs to no job")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}
