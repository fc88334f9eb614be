package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/doctor"
)

func (a *app) doctor() *cobra.Command {
	var db database
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with the database, and say what mends it",
		Long: `doctor looks at the server, at a pooler in the way, at the rights of the role, at the
schema, the table and its source, and at what weakens a guarantee or makes the relay
slow: settings, triggers, dead rows, transactions that are open for long, leases. Each
finding has a code, says why it matters, and what mends it. It changes nothing, needs no
more rights than the role has, and says what it could not look at, and why.

It looks at the database only: whether Kafka answers, and whether a topic is there, is
in outbox status and outbox topics as soon as a relay has tried, and in the outcome of
outbox relay --once. Give it the role of the relay to learn whether that may do what
it has to.

It ends with 1 where something is wrong, and with 0 where there are warnings alone.`,
		Example: "  outbox doctor\n  outbox doctor --table orders.outbox_event --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			pool, err := db.pool(cmd.Context(), a, cmd)
			if err != nil {
				return settingsError(cmd, err)
			}
			defer pool.Close()
			report, err := doctor.Examine(cmd.Context(), doctor.Config{Pool: pool, Table: db.table, WithoutKafka: "this version looks at the database only"})
			if err != nil {
				return err
			}
			if asJSON {
				err = a.encode(report)
			} else {
				err = a.printExamination(report)
			}
			if err == nil && !report.Ready {
				err = &quietError{}
			}
			return err
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func (a *app) printExamination(r doctor.Report) error {
	for _, subject := range r.Sound {
		fmt.Fprintf(a.stdout, "ok       %s\n", subject)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(a.stdout, "%-8s %s [%s]\n", f.Severity, indented(f.Text), f.Code)
		for _, more := range []struct{ label, text string }{{"why", f.Why}, {"mend", mendOf(r, f)}} {
			if more.text != "" {
				fmt.Fprintf(a.stdout, "         %-5s %s\n", more.label+":", indented(more.text))
			}
		}
	}
	for _, u := range r.NotLookedAt {
		fmt.Fprintf(a.stdout, "unseen   %s\n         why:  %s\n", u.What, indented(u.Why))
	}
	_, err := fmt.Fprintln(a.stdout, verdict(r))
	return err
}

// mendOf is what mends a finding. Of a table that is missing with all else it is the command that makes all of it: a second remedy would be tried too.
func mendOf(r doctor.Report, f doctor.Finding) string {
	if f.Code != "table-missing" {
		return f.Mend
	}
	i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Code == "migrations-pending" })
	if i < 0 {
		return f.Mend
	}
	return r.Findings[i].Mend + " makes it with the rest"
}

// indented puts the further lines of a text below its first, without what a terminal would obey.
func indented(text string) string {
	return strings.ReplaceAll(strings.TrimRight(plainText(text), "\n"), "\n", "\n"+strings.Repeat(" ", 15))
}

func verdict(r doctor.Report) string {
	errors := 0
	for _, f := range r.Findings {
		if f.Severity == doctor.Error {
			errors++
		}
	}
	switch {
	case errors > 0:
		return fmt.Sprintf("not ready: %s, %s", plural(errors, "error"), plural(len(r.Findings)-errors, "warning"))
	case len(r.Findings) > 0:
		return fmt.Sprintf("ready, with %s", plural(len(r.Findings), "warning"))
	}
	return "ready"
}
