package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

func (a *app) events() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Look at events and why they do not move; try them again, give them up, put them back",
		Long: `An event is pending until it is in Kafka and settled, then published. Of the pending
ones, an event is parked when it stops its key, and waiting when it is behind such a
one, or waits for its next attempt; the others are held when somebody has paused them,
or their topic is missing or forbidden, and else queued. One that was given up is dead.`,
		Example: `  outbox events list --state parked
  outbox events show 4711
  outbox events retry --topic order-service.order.confirmed
  outbox events skip 4711 --reason "sent by hand"`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.eventsList(), a.eventsShow())
	cmd.AddCommand(a.eventsVerbs()...)
	return cmd
}

type eventsListFlags struct {
	page
	eventFilter
	oldest, allPages, full bool
}

func (a *app) eventsList() *cobra.Command {
	f := &eventsListFlags{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List events, the newest first",
		Long: `list shows a page of events, and at its end how to go on. All flags narrow the list.

By state and id the list is exact, whatever the size of the table. No index knows
topics, keys, types, aggregates, ages and errors: of those it looks at some 10,000s of
rows for a page, says at which, and goes on from there with --after, or by itself
with --all-pages, which may take long on a large table. Nothing is
left out on the way: who goes on to the end has looked at every row.`,
		Example: `  outbox events list --state parked
  outbox events list --state pending --topic order-service.order.confirmed --oldest
  outbox events list --state held
  outbox events list --state dead --error MESSAGE_TOO_LARGE --newer-than 24h
  outbox events list --aggregate-type Order --aggregate-id 4711 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.refuse(cmd, append(f.page.checks(), f.eventFilter.checks()...)); err != nil {
				return err
			}
			return a.listEvents(cmd, f)
		},
	}
	f.page.flags(cmd)
	f.eventFilter.flags(cmd)
	fullFlag(cmd, &f.full)
	cmd.Flags().BoolVar(&f.oldest, "oldest", false, "the oldest first")
	cmd.Flags().BoolVar(&f.allPages, "all-pages", false, "go on through the pages until --limit events are found, or there are no more")
	return cmd
}

func (a *app) listEvents(cmd *cobra.Command, f *eventsListFlags) error {
	filter, err := f.filter(a, cmd, nil)
	if err != nil {
		return err
	}
	q := operate.EventQuery{EventFilter: filter, After: f.after, Limit: f.limit, Order: operate.NewestFirst}
	if f.oldest {
		q.Order = operate.OldestFirst
	}
	return showLook(a, cmd, &f.page, func(s *operate.Service) (operate.EventPage, error) {
		return eventPages(cmd.Context(), s, q, f.allPages)
	},
		func(p operate.EventPage) error {
			if err := a.printEvents(p, shown{f.full}); err != nil {
				return err
			}
			return a.foot(p.Looks, p.Estimated, p.Next)
		})
}

func (a *app) printEvents(p operate.EventPage, show shown) error {
	if len(p.Events) == 0 {
		_, err := fmt.Fprintln(a.stdout, none("event matches", p.Next))
		return err
	}
	rows := make([][]string, len(p.Events))
	for i, e := range p.Events {
		rows[i] = []string{fmt.Sprint(e.ID), string(e.State), whole.name(e.Topic), whole.key(e.PartitionKey), whole.name(e.Type), moment(e.CreatedAt), briefly(e, show)}
	}
	head := []string{"ID", "STATE", "TOPIC", "KEY", "EVENT TYPE", "CREATED", "WHY"}
	return a.fitted(show, head, rows, text(6, 40), name(4, 12), name(3, 12), name(2, 14), text(6, 20))
}

// coded is a reason behind its code, which is said once.
func coded(code, reason string) string {
	switch {
	case reason == "":
		return code
	case code == "" || strings.HasPrefix(reason, code+": "):
		return reason
	}
	return code + ": " + reason
}

// briefly says in a cell why an event is where it is.
func briefly(e operate.Event, show shown) string {
	why := show.letter(coded(e.Code, e.Error))
	switch {
	case e.State == operate.StatePublished:
		return "published " + moment(e.PublishedAt)
	case e.LetterTopic != "":
		return fmt.Sprintf("%s; sent to %s", whole.sentence(why), whole.name(e.LetterTopic))
	case e.BlockedBy != 0:
		return fmt.Sprintf("behind %d", e.BlockedBy)
	case e.Kept != nil:
		return whole.sentence(e.Kept.Text)
	case !e.NextAttemptAt.IsZero():
		return fmt.Sprintf("%s; again at %s", whole.sentence(why), moment(e.NextAttemptAt))
	}
	return whole.sentence(why)
}
