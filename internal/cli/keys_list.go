package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// keyFilter are the flags that say which parked keys are meant.
type keyFilter struct {
	topic, key, typ, code, failed string
	olderThan, newerThan          time.Duration
	emptyKey                      bool
}

func (f *keyFilter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "the key's `topic`")
	flags.StringVar(&f.key, "key", "", "the partition `key`")
	emptyKeyVar(cmd, &f.emptyKey)
	flags.StringVar(&f.typ, "type", "", "the `type` of the event that stops the key")
	flags.StringVar(&f.code, "code", "", "the `code` of the reason, such as MESSAGE_TOO_LARGE")
	flags.StringVar(&f.failed, "error", "", "a `part` of the reason or its code, in any case")
	config.AgeVar(flags, &f.olderThan, "older-than", 0, "parked at least so long ago, such as 1h")
	config.AgeVar(flags, &f.newerThan, "newer-than", 0, "parked at most so long ago, such as 15m")
}

func (f *keyFilter) checks() []check {
	return []check{atLeast("older-than", &f.olderThan, 0), atLeast("newer-than", &f.newerThan, 0)}
}

// filter is what the flags say.
func (f *keyFilter) filter(cmd *cobra.Command) (operate.KeyFilter, error) {
	given := func(flag string, value *string) *string { return givenText(cmd, flag, value) }
	key, err := keyGiven(cmd, &f.key, f.emptyKey)
	return operate.KeyFilter{
		Topic: given("topic", &f.topic), PartitionKey: key, Type: given("type", &f.typ), Code: given("code", &f.code),
		Error: f.failed, MinAge: f.olderThan, MaxAge: f.newerThan,
	}, err
}

func (a *app) keysList() *cobra.Command {
	var f struct {
		page
		keyFilter
		newest, full bool
	}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the keys that do not go on: parked, paused, or waiting for an attempt",
		Long: `list shows a page of the parked keys, each with the event that stops it, the one with the
oldest event first, and at its end how to go on. Behind those of the first page stand the
keys that somebody has paused, and those whose event is tried again by itself; a key that
is parked and paused is there twice. The reason of a parked key is of the time in SINCE,
whatever has been done to the row meanwhile. A paused topic, or everything, is in outbox topics
and outbox pause list.`,
		Example: "  outbox keys list\n  outbox keys list --topic order-service.order.confirmed --code MESSAGE_TOO_LARGE\n  outbox keys list --limit 500 --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.refuse(cmd, append(f.page.checks(), f.keyFilter.checks()...)); err != nil {
				return err
			}
			filter, err := f.filter(cmd)
			if err != nil {
				return err
			}
			q := operate.KeyQuery{KeyFilter: filter, After: f.after, Limit: f.limit}
			if f.newest {
				q.Order = operate.NewestFirst
			}
			return showLook(a, cmd, &f.page, func(s *operate.Service) (operate.KeyPage, error) { return s.Keys(cmd.Context(), me(), q) },
				func(p operate.KeyPage) error {
					return a.printKeys(p, q.KeyFilter == operate.KeyFilter{}, shown{f.full})
				})
		},
	}
	f.page.flags(cmd)
	f.keyFilter.flags(cmd)
	cmd.Flags().BoolVar(&f.newest, "newest", false, "the newest first")
	fullFlag(cmd, &f.full)
	return cmd
}

func (a *app) printKeys(p operate.KeyPage, all bool, show shown) error {
	if len(p.Keys)+len(p.Paused)+len(p.Waiting) == 0 {
		what := none("key matches", p.Next)
		if all {
			what = "no key is parked, paused, or waits for an attempt"
		}
		fmt.Fprintln(a.stdout, what)
	}
	if err := a.printKeyLines(p, show); err != nil {
		return err
	}
	if len(p.Keys) > 0 {
		fmt.Fprintln(a.stdout, "a parked key's reason is of the time in SINCE: when its row is mended, outbox keys unpark has it tried again")
	}
	if err := a.foot(p.Looks, "", p.Next); err != nil || len(p.Competing) == 0 {
		return err
	}
	// A metric that counts held keys must not lead to an empty list without a word.
	_, err := fmt.Fprintf(a.stdout, "%s park no key: %s\n", printable(strings.Join(p.Competing, ", ")), heldElsewhere)
	return err
}

// printKeyLines prints the parked keys, then those of the first page that are paused, or wait for their next attempt.
func (a *app) printKeyLines(p operate.KeyPage, show shown) error {
	if len(p.Keys)+len(p.Paused)+len(p.Waiting) == 0 {
		return nil
	}
	var rows [][]string
	line := func(state, topic, key, id, typ string, since time.Time, reason string) {
		rows = append(rows, []string{state, whole.name(topic), whole.key(key), id, whole.name(typ), moment(since), whole.sentence(reason)})
	}
	for _, k := range p.Keys {
		line("parked", k.Topic, k.PartitionKey, fmt.Sprint(k.ID), k.Type, k.ParkedAt, show.letter(whyParked(k)))
	}
	for _, k := range p.Paused {
		line("paused", k.Topic, k.PartitionKey, "-", "", k.Since, pauseReason(k))
	}
	for _, k := range p.Waiting {
		// What is never to be cut stands before the reason.
		line("waiting", k.Topic, k.PartitionKey, fmt.Sprint(k.ID), "", k.LastAt, fmt.Sprintf("again at %s, after %s; %s", moment(k.NextAttemptAt), plural(k.Attempts, "attempt"), show.letter(k.Error)))
	}
	head := []string{"STATE", "TOPIC", "KEY", "ID", "EVENT TYPE", "SINCE", "REASON"}
	err := a.fitted(show, head, rows, text(6, 40), name(4, 12), name(2, 12), name(1, 14), text(6, 20))
	if err == nil && p.MorePaused {
		_, err = fmt.Fprintln(a.stdout, "more keys are paused: outbox pause list shows them")
	}
	if err == nil && p.MoreWaiting {
		_, err = fmt.Fprintln(a.stdout, "more keys wait for their next attempt: outbox events list --state waiting shows their events")
	}
	return err
}

func pauseReason(p operate.Pause) string {
	if p.Reason == "" {
		return "by " + p.By
	}
	return "by " + p.By + ": " + p.Reason
}

// whyParked says what a key waits for now, which may be another than when it was parked.
func whyParked(k operate.Key) string {
	switch {
	case k.Code != relay.CodeAggregateParked:
		return coded(k.Code, k.Reason)
	case k.WaitsFor == nil:
		return k.Code + ": nothing stops its aggregate any more: it goes on in a moment"
	}
	return fmt.Sprintf("%s: event %d of topic %s stops its aggregate (%s)", k.Code, k.WaitsFor.ID, k.WaitsFor.Topic, k.WaitsFor.EventID)
}

// heldElsewhere follows the competing relays.
const heldElsewhere = "a key whose event failed is left out for a while and tried again by itself; see their log (event failed) and metric outbox_held_keys"
