package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

func (a *app) topics() *cobra.Command {
	var db database
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "topics",
		Short: "List the topics that have events waiting, parked or dead, or cannot be published to",
		Long: `topics counts, by topic, unpublished and dead events and parked keys, and shows what
keeps a topic: a relay that can publish nothing to it because it is missing or
forbidden, or an operator who has paused it. Below the table stand the dead-letter
topics that take nothing, with how many keys are parked because of it, and what helps.
Of each kind it counts at most 30,000, the oldest, and marks the numbers with + when
there are more; outbox status counts further.`,
		Example: "  outbox topics\n  outbox topics --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			service, done, err := a.looker(cmd, &db)
			if err != nil {
				return err
			}
			defer done()
			list, err := service.Topics(cmd.Context(), me())
			if err != nil {
				return err
			}
			if asJSON {
				return a.encode(list)
			}
			return a.printTopicList(list)
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func (a *app) printTopicList(list operate.TopicList) error {
	if p := list.Paused; p != nil {
		fmt.Fprintf(a.stdout, "all topics are paused by %s since %s: %s\n\n", printable(p.By), moment(p.Since), shown{}.sentence(p.Reason))
	}
	for _, o := range list.Outages {
		fmt.Fprintf(a.stdout, "Kafka does not answer %s since %s: what it has waits, of any topic\n\n", printable(o.Relay), moment(o.Since))
	}
	if len(list.Topics) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no topic has events waiting, parked or dead, and none is held or paused")
		return err
	}
	err := a.table("TOPIC\tPENDING\tOLDEST\tPARKED KEYS\tDEAD\tHELD OR PAUSED", func(w io.Writer) {
		for _, t := range list.Topics {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cell(t.Topic), counted(t.Pending, t.PendingCapped), age(t.Pending, time.Duration(t.OldestAge*float64(time.Second))),
				counted(t.ParkedKeys, t.ParkedKeysCapped), counted(t.Dead, t.DeadCapped), keeps(t, list.Watched))
		}
	})
	if err != nil {
		return err
	}
	for _, l := range list.LetterTopics {
		fmt.Fprintln(a.stdout, letterTopic(l))
	}
	for _, l := range list.Looks {
		fmt.Fprintf(a.stdout, "of the %s the oldest %s are counted; + marks what may be more, of topics that are not shown, too\n", l.What, grouped(l.Events))
	}
	return nil
}

// keeps says what keeps a topic. Without a relay nobody knows.
func keeps(t operate.Topic, watched bool) string {
	var parts []string
	if t.Paused != nil {
		parts = append(parts, "paused "+pausedBy(t.Paused.By, t.Paused.Since, t.Paused.Reason))
	}
	for _, h := range t.Holds {
		parts = append(parts, fmt.Sprintf("%s since %s: %s: %s", h.Relay, moment(h.Since), h.Code, h.Reason))
	}
	if t.PausedKeys > 0 {
		parts = append(parts, fmt.Sprintf("%s paused: outbox pause list", plural(int(t.PausedKeys), "key")))
	}
	switch {
	case len(parts) > 0:
		return noteLine(strings.Join(parts, "; "))
	case !watched:
		return "-"
	}
	return "no"
}
