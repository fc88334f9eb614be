package cli

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

func (a *app) status() *cobra.Command {
	var db database
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what waits, for how long, and who publishes it",
		Long: `status shows the backlog, the age of its oldest event, parked keys, what is paused and
by whom, the relays, when each was last seen, and whether Kafka answers it. A
dead-letter topic that takes nothing has a line of its own, with the keys that are
parked because of it, and what helps. It counts at most 1,000,000 unpublished events,
and marks the numbers with + when there are more.

With --config and no --source it shows all sources of the file. One that cannot be
reached is shown with its error, the others all the same, and the exit code is 1.`,
		Example: "  outbox status\n  outbox status --table orders.outbox_event --json\n  outbox status --config outbox.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			reports, err := a.statuses(cmd, &db)
			if err != nil {
				return err
			}
			if len(reports) == 1 {
				a.password = reports[0].password
				if err := reports[0].err; err != nil {
					return err
				}
			}
			if asJSON {
				err = a.encodeStatuses(reports)
			} else {
				err = a.printStatuses(reports)
			}
			if err == nil && slices.ContainsFunc(reports, func(r sourceStatus) bool { return r.err != nil }) {
				err = &quietError{}
			}
			return err
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object, for each source one in a line")
	return cmd
}

// operator makes the operators' side of the source; done closes its connections.
func (a *app) operator(cmd *cobra.Command, db *database) (operator *postgres.Operator, done func(), err error) {
	pool, err := db.pool(cmd.Context(), a, cmd)
	if err != nil {
		return nil, nil, settingsError(cmd, err)
	}
	operator, err = postgres.NewOperator(pool, postgres.Config{Table: db.table, Logger: a.logger(a.remarks(), slog.LevelWarn)})
	if err != nil {
		closeSoon(pool)
		return nil, nil, &configError{err}
	}
	return operator, func() { closeSoon(pool) }, nil
}

func (a *app) printStatus(r sourceStatus) error {
	s := r.status
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	if r.name != "" {
		fmt.Fprintf(w, "source\t%s\n", r.name)
	}
	fmt.Fprintf(w, "table\t%s\n", s.Table)
	fmt.Fprintf(w, "pending\t%s\n", counted(s.Pending, s.PendingCapped))
	fmt.Fprintf(w, "oldest pending\t%s\n", age(s.Pending, s.OldestAge))
	fmt.Fprintf(w, "parked keys\t%d\n", s.ParkedKeys)
	for i, l := range s.LetterTopics {
		fmt.Fprintf(w, "%s\t%s\n", label(i, "dead letters"), letterTopic(l))
	}
	fmt.Fprintf(w, "dead events\t%s\n", deadEvents(s))
	if anyCompeting(s.Relays) {
		fmt.Fprintf(w, "held keys\tcompeting relays are alive: %s\n", heldElsewhere)
	}
	printPaused(w, s)
	fmt.Fprintf(w, "last published\t%s\n", moment(s.LastPublished))
	printHolding(w, r.holding)
	for i, line := range relays(s) {
		fmt.Fprintf(w, "%s\t%s\n", label(i, "relays"), line)
	}
	if !s.Indexed {
		fmt.Fprintf(w, "index\tMISSING: no index WHERE published_at IS NULL, reading gets slower as the table grows: see outbox migrate status\n")
	}
	printTopics(w, s)
	return w.Flush()
}

// deadEvents is how many there are, and where to look at them.
func deadEvents(s postgres.Status) string {
	if s.Dead == 0 {
		return "0"
	}
	return counted(s.Dead, s.DeadCapped) + ": outbox events list --state dead"
}

// letterTopic says what a dead-letter topic keeps, and what helps.
func letterTopic(l operate.LetterTopic) string {
	wait := plural(int(l.ParkedKeys), "key") + " waits"
	if l.ParkedKeys != 1 || l.ParkedKeysCapped {
		wait = counted(l.ParkedKeys, l.ParkedKeysCapped) + " keys wait"
	}
	return noteLine(fmt.Sprintf("%s for the dead-letter topic %s, which takes nothing (%s); %s", wait, l.Topic, l.Code, l.Mend()))
}

// pausesPrinted bounds the pauses that a status names.
const pausesPrinted = 10

func printPaused(w io.Writer, s postgres.Status) {
	if !s.Paused.Any() {
		fmt.Fprintf(w, "paused\tnothing\n")
		return
	}
	label := "paused"
	shown := s.Pauses[:min(len(s.Pauses), pausesPrinted)]
	for _, p := range shown {
		fmt.Fprintf(w, "%s\t%s: %s pending; %s\n", label, pauseName(p.Pause), countedEvents(p.Pending, p.PendingCapped), pausedBy(p.By, p.At, p.Reason))
		label = ""
	}
	if more := s.Paused.Count() - int64(len(shown)); more > 0 {
		fmt.Fprintf(w, "%s\tand %d more: outbox pause list\n", label, more)
	}
}

// pauseName says what is paused.
func pauseName(p relay.Pause) string {
	switch p.Scope {
	case relay.PauseTopic:
		return "topic " + printable(abridged(p.Topic))
	case relay.PauseKey:
		return fmt.Sprintf("key %s of topic %s", strconv.Quote(abridged(p.PartitionKey)), printable(abridged(p.Topic)))
	}
	return "everything"
}

// pausedBy says by whom, since when and why.
func pausedBy(by string, since time.Time, reason string) string {
	text := fmt.Sprintf("by %s since %s", printable(abridged(by)), moment(since))
	if reason != "" {
		text += ": " + noteLine(abridged(reason))
	}
	return text
}

// printTopics says nothing of what holds a topic when no relay is alive that could know.
func printTopics(w io.Writer, s postgres.Status) {
	if len(s.Topics) == 0 {
		return
	}
	free := "-"
	if slices.ContainsFunc(s.Relays, func(r postgres.RelayStatus) bool { return r.Remaining > 0 }) {
		free = "no"
	}
	fmt.Fprintf(w, "\nTOPIC\tPENDING\tOLDEST\tPARKED KEYS\tHELD OR PAUSED\n")
	for _, t := range s.Topics {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", printable(abridged(t.Topic)), counted(t.Pending, t.PendingCapped), age(t.Pending, t.OldestAge), t.ParkedKeys, cmp.Or(heldOrPaused(s, t), free))
	}
}

// heldOrPaused is "" when nothing is known to keep the topic.
func heldOrPaused(s postgres.Status, t postgres.TopicStatus) string {
	var parts []string
	if s.Paused.Source {
		parts = append(parts, "paused with everything")
	}
	if p := pauseOf(s, t.Topic); p != nil {
		parts = append(parts, "paused "+pausedBy(p.By, p.At, p.Reason))
	}
	if t.HeldCode != "" {
		parts = append(parts, noteLine(fmt.Sprintf("since %s: %s: %s", moment(t.HeldSince), t.HeldCode, t.HeldReason)))
	}
	if t.PausedKeys > 0 {
		parts = append(parts, fmt.Sprintf("%s paused: outbox pause list", plural(int(t.PausedKeys), "key")))
	}
	return strings.Join(parts, "; ")
}

// counted is a number, marked where counting ended before it was reached.
func counted(n int64, capped bool) string {
	if capped {
		return fmt.Sprintf("%d+", n)
	}
	return strconv.FormatInt(n, 10)
}

// countedEvents is "1 event", "2 events" or "1000000+ events".
func countedEvents(n int64, capped bool) string {
	if capped {
		return counted(n, capped) + " events"
	}
	return plural(int(n), "event")
}

func age(pending int64, d time.Duration) string {
	if pending == 0 {
		return "-"
	}
	return d.Round(100 * time.Millisecond).String()
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}
