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
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a job that is running, wherever it runs",
		Long: `cancel ends a job between two batches. What is done stays done; requests that no relay
has carried out yet are taken back. The command that runs the job reports what it did.`,
		Example: "  outbox jobs cancel 17",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || id <= 0 {
				return &usageError{fmt.Errorf("jobs cancel %q: want the id of a job; outbox jobs list shows them", args[0])}
			}
			s, done, err := a.service(cmd, &db)
			if err != nil {
				return err
			}
			defer done()
			if err := s.Cancel(cmd.Context(), who.actor(), id, who.reason); err != nil {
				return err
			}
			if asJSON {
				return a.encode(map[string]string{"job": args[0], "state": operate.JobCancelled})
			}
			_, err = fmt.Fprintf(a.stdout, "job %d is cancelled\n", id)
			return err
		},
	}
	db.flags(cmd)
	who.flags(cmd, "why, for the audit")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}
