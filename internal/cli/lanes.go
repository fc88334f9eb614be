package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/postgres"
)

func (a *app) lanes() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lanes",
		Short: "Look at the lanes, or change their number",
		Long: `A lane is a part of the keys, by a hash of the partition key, and the unit in which
relays share a table: each relay takes its share of the lanes, and more relays
than lanes are of no use.`,
		Example: "  outbox lanes list\n  outbox lanes set 16",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.lanesList(), a.lanesSet())
	return cmd
}

func (a *app) lanesList() *cobra.Command {
	var db database
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the lanes, each with the relay that has it",
		Example: "  outbox lanes list\n  outbox lanes list --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			operator, done, err := a.operator(cmd, &db)
			if err != nil {
				return err
			}
			defer done()
			lanes, err := operator.Lanes(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.encode(map[string][]laneObject{"lanes": lanesJSON(lanes)})
			}
			if err := a.printLanes(lanes); err != nil {
				return err
			}
			competing, err := operator.Competing(cmd.Context())
			if err != nil || len(competing) == 0 {
				return err
			}
			return a.printLaneless(competing)
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func (a *app) printLanes(lanes []postgres.LaneStatus) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LANE\tRELAY\tEPOCH\tEXPIRES IN\tPARKED KEYS")
	for _, l := range lanes {
		name, expires := "-", "-"
		if l.Remaining > 0 {
			name, expires = printable(l.OwnerName), l.Remaining.Round(100*time.Millisecond).String()
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%d\n", l.Lane, name, l.Epoch, expires, l.ParkedKeys)
	}
	return w.Flush()
}

// printLaneless says why the lanes are free though somebody publishes.
func (a *app) printLaneless(relays []string) error {
	text := "1 relay competes for rows and has no lanes"
	if n := len(relays); n > 1 {
		text = fmt.Sprintf("%d relays compete for rows and have no lanes", n)
	}
	_, err := fmt.Fprintf(a.stdout, "\n%s: %s\n", text, printable(strings.Join(relays, ", ")))
	return err
}

func (a *app) lanesSet() *cobra.Command {
	var db database
	var yes, asJSON bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "set N",
		Short: "Change the number of lanes, with all relays of the table stopped",
		Long: `set changes into how many lanes the keys of a table are divided, 1 to 1024. It
refuses while a relay of the table is alive, or with --wait waits until all of them
are stopped: stop them, and start them again when it is done. Two to four times as
many lanes as there will ever be relays let them share evenly; many more cost each
relay a little. Nothing in the outbox table changes.`,
		Example: "  outbox lanes set 16\n  outbox lanes set 16 --wait 5m --yes\n  outbox lanes set 4 --table orders.outbox_event --yes",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("lanes set needs a number, 1 to %d", postgres.MaxLanes)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil {
				return &usageError{fmt.Errorf("lanes set %q: want 1 to %d; see %s --help", args[0], postgres.MaxLanes, cmd.CommandPath())}
			}
			if n < 1 || n > postgres.MaxLanes {
				return &usageError{fmt.Errorf("lanes set %q: want 1 to %d; see %s --help", args[0], postgres.MaxLanes, cmd.CommandPath())}
			}
			if err := a.refuse(cmd, []check{atLeast("wait", &wait, 0)}); err != nil {
				return err
			}
			return a.setLanes(cmd, &db, n, yes, wait, asJSON)
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait until all relays are stopped and nothing is left open")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func (a *app) setLanes(cmd *cobra.Command, db *database, n int, confirmed bool, wait time.Duration, asJSON bool) error {
	operator, done, err := a.operator(cmd, db)
	if err != nil {
		return err
	}
	defer done()
	before, err := operator.Lanes(cmd.Context())
	if err != nil {
		return err
	}
	say := func() error { return a.encode(map[string]any{"table": db.table, "lanes": n, "before": len(before)}) }
	if len(before) == n && asJSON {
		return say()
	}
	if len(before) == n {
		_, err := fmt.Fprintf(a.stdout, "%s has %s already\n", db.table, plural(n, "lane"))
		return err
	}
	if !confirmed && asJSON {
		return unconfirmed("with --json nothing is asked: --yes agrees")
	}
	if !confirmed {
		if err := a.confirm(cmd, fmt.Sprintf("Change %s from %s to %d?", db.table, plural(len(before), "lane"), n), "--yes agrees for a script"); err != nil {
			return err
		}
	}
	if err := a.changeLanes(cmd.Context(), operator, n, wait); err != nil {
		return err
	}
	if asJSON {
		return say()
	}
	_, err = fmt.Fprintf(a.stdout, "%s has %s now, and had %d: start its relays again\n", db.table, plural(n, "lane"), len(before))
	return err
}

func (a *app) changeLanes(ctx context.Context, operator *postgres.Operator, n int, wait time.Duration) error {
	if wait == 0 {
		return operator.SetLanes(ctx, n)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return operator.AwaitSetLanes(ctx, n, func(what string) { fmt.Fprintf(a.progressOut(), "waiting for the end of %s\n", what) })
}
