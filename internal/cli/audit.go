package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/operate"
)

type auditFlags struct {
	page
	actor, verb string
	job         int64
	full        bool
	newerThan   time.Duration
}

func (a *app) audit() *cobra.Command {
	f := &auditFlags{}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List what operators have changed, the newest first",
		Long: `audit lists every change that somebody asked for: who, what, to which events or keys,
why, and what became of it. One without an outcome goes on, or ended without a word.
WHAT and TO are the command as it can be typed again. Reasons, and what else is long,
are cut to the width of the terminal; --full shows them, and outbox audit --json
everything.`,
		Example: "  outbox audit\n  outbox audit --actor ann --verb skip --newer-than 24h\n  outbox audit --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.refuse(cmd, append(f.checks(), atLeast("newer-than", &f.newerThan, 0), atLeast("job", &f.job, 0))); err != nil {
				return err
			}
			return a.listAudit(cmd, f)
		},
	}
	f.page.flags(cmd)
	cmd.Flags().StringVar(&f.actor, "actor", "", "by this `name`")
	cmd.Flags().StringVar(&f.verb, "verb", "", "of this `verb`: "+strings.Join(operate.AuditedVerbs(), ", "))
	completeWords(cmd, "verb", operate.AuditedVerbs())
	fullFlag(cmd, &f.full)
	cmd.Flags().Int64Var(&f.job, "job", 0, "of the job with this `id`")
	config.AgeVar(cmd.Flags(), &f.newerThan, "newer-than", 0, "at most so long ago, such as 24h or 7d")
	return cmd
}

func (a *app) listAudit(cmd *cobra.Command, f *auditFlags) error {
	q := operate.AuditQuery{
		Actor: givenText(cmd, "actor", &f.actor), Verb: givenText(cmd, "verb", &f.verb), Job: f.job, MaxAge: f.newerThan, After: f.after, Limit: f.limit,
	}
	return showLook(a, cmd, &f.page, func(s *operate.Service) (operate.AuditPage, error) { return s.Audit(cmd.Context(), me(), q) },
		func(p operate.AuditPage) error { return a.printAudit(p, shown{f.full}) })
}

func (a *app) printAudit(p operate.AuditPage, show shown) error {
	if len(p.Entries) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no change matches")
		return err
	}
	rows := make([][]string, len(p.Entries))
	for i, e := range p.Entries {
		changed := "-"
		if e.Affected != nil {
			changed = fmt.Sprint(*e.Affected)
		}
		what, to := asked(e.Verb, e.Filter)
		rows[i] = []string{moment(e.At), whole.name(e.Actor), whole.name(what), whole.sentence(to), changed, whole.sentence(e.Outcome), whole.sentence(e.Reason)}
	}
	head := []string{"AT", "WHO", "WHAT", "TO", "CHANGED", "OUTCOME", "REASON"}
	err := a.fitted(show, head, rows, text(6, 20), text(5, 30), text(3, 40), text(1, 8), text(2, 14), text(5, 20), text(3, 24), text(5, 14))
	if err != nil {
		return err
	}
	return a.foot(nil, "", p.Next)
}
