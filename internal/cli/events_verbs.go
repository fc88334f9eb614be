package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

// eventVerbFlags are those of a verb on events.
type eventVerbFlags struct {
	database
	bulkFlags
	eventFilter
	wait time.Duration
}

// eventsVerbs are the commands that change events.
func (a *app) eventsVerbs() []*cobra.Command {
	return []*cobra.Command{
		a.eventsVerb(operate.VerbRetry, "Try events again that have failed", `An event that stops its key is published again, and its key goes on with it; one
that waits for its next attempt is tried now. Mend the cause first, such as a topic's
max.message.bytes: what fails again is parked again.`,
			`  outbox events retry 4711
  outbox events retry --topic order-service.order.confirmed --error MESSAGE_TOO_LARGE
  outbox events retry --all --yes`),
		a.eventsVerb(operate.VerbSkip, "Give events up that nobody wants published, and let their keys go on", `Each event is moved whole to outbox.dead_event, where outbox events list --state dead
shows it and outbox events restore takes it back; its key goes on behind it. Without
--state these are the events that stop a key, with --state waiting those that wait
for their own next attempt: never one that is only behind them. --state pending takes
whatever is unpublished, also what has not failed. Deleting rows needs a right:
outbox migrate grants --role relay --delete for the relay's role.`,
			`  outbox events skip 4711 --reason "sent by hand"
  outbox events skip --topic order-service.order.confirmed --older-than 24h --reason "too old" --dry-run`),
		a.eventsVerb(operate.VerbDead, "Give events up that cannot be published now, to restore them later", `It does what skip does; the code that is kept with the event is another.`,
			`  outbox events dead 4711 --reason "the consumer is not ready"
  outbox events dead --state pending --topic order-service.order.confirmed --reason "by mistake"`),
		a.eventsVerb(operate.VerbRestore, "Put dead events back into the table, under their ids", `Each event goes out at once, in its place before what is unpublished of its key. Where
newer events of its key are published already, it comes behind them: this is said
first, and --yes agrees. Inserting rows needs a right: outbox migrate grants --role
relay --restore for the relay's role.`,
			`  outbox events restore 4711
  outbox events restore --topic order-service.order.confirmed --newer-than 24h`),
	}
}

func (a *app) eventsVerb(verb operate.Verb, short, long, example string) *cobra.Command {
	f := &eventVerbFlags{}
	cmd := &cobra.Command{
		Use:   string(verb) + " [ID…]",
		Short: short,
		Long: short + `.

` + long + `

An ID is that of the row or of the event. Without one, flags say which events are
meant. The relay that owns the lane of a key does it when nothing of the key is on
its way to Kafka; with no relay alive, this command does.

` + bulkHelp,
		Example: example,
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runEventsVerb(cmd, verb, f, args) },
	}
	f.database.flags(cmd)
	f.eventFilter.flags(cmd)
	reason := "why, for the audit"
	if verb == operate.VerbSkip || verb == operate.VerbDead {
		reason += "; needed, it is kept with the event"
	}
	f.bulkFlags.flags(cmd, reason, "events that it is for")
	cmd.Flags().DurationVar(&f.wait, "wait", operate.DefaultWait, "how long to wait until a single event is done")
	return cmd
}

func (a *app) runEventsVerb(cmd *cobra.Command, verb operate.Verb, f *eventVerbFlags, args []string) error {
	if err := f.narrowed(cmd, args); err != nil {
		return err
	}
	if err := f.needsReason(verb); err != nil {
		return err
	}
	if err := a.refuse(cmd, append(f.checks(), above("wait", &f.wait, 0))); err != nil {
		return err
	}
	filter, err := f.filter(a, cmd, args)
	if err != nil {
		return err
	}
	s, done, err := a.service(cmd, &f.database)
	if err != nil {
		return err
	}
	defer done()
	if len(filter.Refs) == 1 && !f.dryRun {
		act := operate.Action{Verb: verb, Event: filter.Refs[0], Reason: f.reason, Wait: f.wait, Overtaking: f.yes}
		return a.act(cmd, s, &f.bulkFlags, act)
	}
	b := operate.Bulk{Verb: verb, Events: &filter, Reason: f.reason}
	return a.bulk(cmd, s, &f.bulkFlags, b, func(ctx context.Context, c operate.Confirmed, progress func(operate.Progress)) (operate.Report, error) {
		return s.Run(ctx, f.actor(), b, c, progress)
	})
}

// needsReason refuses a verb without the reason that is kept with what is done. A dry run does nothing, and needs none.
func (f *bulkFlags) needsReason(verb operate.Verb) error {
	switch verb {
	case operate.VerbSkip, operate.VerbDead, operate.VerbReplay:
		if f.reason == "" && f.dryRun {
			f.reason = "dry run"
		}
		if f.reason == "" {
			return &usageError{errors.New("--reason is needed: it is kept with what is done")}
		}
	}
	return nil
}

// act does a verb to one event or key. Where an agreement is missing it asks for it on a terminal.
func (a *app) act(cmd *cobra.Command, s *operate.Service, f *bulkFlags, act operate.Action) error {
	text, err := s.Act(cmd.Context(), f.actor(), act)
	if plan, asks := operate.PlanOf(err); asks {
		b := operate.Bulk{Verb: act.Verb, Events: &operate.EventFilter{}}
		if err := a.agree(cmd, b, plan); err != nil {
			return err
		}
		act.Overtaking = true
		text, err = s.Act(cmd.Context(), f.actor(), act)
	}
	if err != nil {
		return explainAction(act, err)
	}
	if f.json {
		return a.encode(map[string]string{"verb": string(act.Verb), "outcome": text})
	}
	_, err = fmt.Fprintln(a.stdout, printable(text)+behind(act.Verb, text))
	return err
}

// behind is what may follow what was done. Where a key was only let go on, no event was moved that could be put back.
func behind(verb operate.Verb, text string) string {
	if verb == operate.VerbSkip && strings.HasPrefix(text, "unparked: ") {
		return ""
	}
	switch verb {
	case operate.VerbUnpark, operate.VerbRetry:
		return ": if the cause is still there the key is parked again; see outbox keys list"
	case operate.VerbSkip, operate.VerbDead:
		return "; outbox events restore puts it back, and it fails again then if it had failed and the cause is still there"
	}
	return ""
}

// explainAction says where to look.
func explainAction(act operate.Action, err error) error {
	switch code := operate.CodeOf(err); {
	case code != operate.CodeConflict && code != operate.CodeUnavailable:
		return err
	case act.Event == operate.Ref{} && code == operate.CodeConflict:
		return hinted(err, "outbox keys list shows what is parked")
	case act.Event == operate.Ref{}:
		return hinted(err, "outbox keys list shows which event stops the key, and outbox events show of that event what keeps it")
	}
	return hinted(err, fmt.Sprintf("outbox events show %s tells where it is, and what keeps it", act.Event))
}
