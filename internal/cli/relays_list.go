package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

func (a *app) relays() *cobra.Command {
	var db database
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "relays",
		Short: "List the relays that are alive, and those that ended without a word",
		Long: `relays lists the relay processes of a table. One that stopped cleanly is forgotten; one
that did not is shown as dead, with the time when it was last seen, until a relay starts
that finds it dead for a day.`,
		Example: "  outbox relays\n  outbox relays --table orders.outbox_event --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			service, done, err := a.looker(cmd, &db)
			if err != nil {
				return err
			}
			defer done()
			list, err := service.Relays(cmd.Context(), me())
			if err != nil {
				return err
			}
			if asJSON {
				return a.encode(struct {
					Relays []operate.Relay `json:"relays"`
				}{list})
			}
			return a.printRelayList(list)
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func (a *app) printRelayList(list []operate.Relay) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no relay is alive: start one with outbox relay; when the last one was there is not known, for one that stops cleanly leaves no trace")
		return err
	}
	err := a.table("RELAY\tVERSION\tALIVE\tLANES\tHELD TOPICS\tKAFKA ANSWERED\tSTARTED\tSEEN", func(w io.Writer) {
		for _, r := range list {
			lanes, alive := fmt.Sprint(r.Lanes), "yes"
			if r.Competing {
				lanes = "competes"
			}
			if !r.Alive {
				alive = "dead"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", cell(r.Name), cell(r.Version), alive, lanes, r.Holds, kafkaAnswered(r), moment(r.StartedAt), moment(r.SeenAt))
		}
	})
	if err != nil {
		return err
	}
	return a.printHeldNames(list)
}

// nothingAsked is from when on an answer is so old that the relay has had nothing to ask Kafka since: else it asks every few seconds.
const nothingAsked = 30 * time.Second

// kafkaAnswered says when Kafka last answered a relay, and of an old answer that none is missing.
func kafkaAnswered(r operate.Relay) string {
	switch {
	case r.Alive && !r.SilentSince.IsZero():
		return "NOT SINCE " + moment(r.SilentSince)
	case r.Alive && !r.ProvedAt.IsZero() && r.SeenAt.Sub(r.ProvedAt) >= nothingAsked:
		return moment(r.ProvedAt) + ", asked nothing since"
	}
	return moment(r.ProvedAt)
}

// printHeldNames says which topics relays that are alive can publish nothing to.
func (a *app) printHeldNames(list []operate.Relay) error {
	for _, r := range list {
		if !r.Alive || len(r.HeldNames) == 0 {
			continue
		}
		names := make([]string, len(r.HeldNames))
		for i, n := range r.HeldNames {
			names[i] = cell(n)
		}
		more := ""
		if n := r.Holds - len(names); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		if _, err := fmt.Fprintf(a.stdout, "%s holds %s%s: outbox topics says why\n", cell(r.Name), strings.Join(names, ", "), more); err != nil {
			return err
		}
	}
	return nil
}
