package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/operate"
)

// eventFilter are the flags that say which events are meant.
type eventFilter struct {
	state, from, until                          string
	ids                                         []string
	topic, key, typ, aggregateType, aggregateID string
	failed                                      string
	olderThan, newerThan                        time.Duration
	minID, maxID                                int64
	emptyKey                                    bool
}

func (f *eventFilter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.state, "state", "", "pending (whatever is unpublished), or of these parked, waiting, held (paused, or its topic is) or queued (nothing keeps it); published, dead or any")
	flags.StringSliceVar(&f.ids, "id", nil, "the `id` of a row or of an event; several by commas, or again")
	flags.StringVar(&f.topic, "topic", "", "the `topic`")
	flags.StringVar(&f.key, "key", "", "the partition `key`")
	emptyKeyVar(cmd, &f.emptyKey)
	flags.StringVar(&f.typ, "type", "", "the event's `type`, such as order.confirmed.v1")
	flags.StringVar(&f.aggregateType, "aggregate-type", "", "the aggregate's `type`")
	flags.StringVar(&f.aggregateID, "aggregate-id", "", "the aggregate's `id`")
	flags.StringVar(&f.failed, "error", "", "a `part` of the error or its code, in any case")
	config.AgeVar(flags, &f.olderThan, "older-than", 0, "created at least so long ago, such as 24h or 7d")
	config.AgeVar(flags, &f.newerThan, "newer-than", 0, "created at most so long ago, such as 15m")
	flags.StringVar(&f.from, "from", "", "created at or after this `time`: "+momentsHelp)
	flags.StringVar(&f.until, "until", "", "created before this `time`, as of --from")
	flags.Int64Var(&f.minID, "min-id", 0, "rows with this id or a larger one")
	flags.Int64Var(&f.maxID, "max-id", 0, "rows with this id or a smaller one")
	completeWords(cmd, "state", states)
}

// states are those that a filter of events knows.
var states = []string{"pending", "parked", "waiting", "held", "queued", "published", "dead", "any"}

func (f *eventFilter) checks() []check {
	return []check{oneOf("state", &f.state, states), atLeast("older-than", &f.olderThan, 0), atLeast("newer-than", &f.newerThan, 0)}
}

// filter is what the flags say, with the events that are named beside them.
func (f *eventFilter) filter(a *app, cmd *cobra.Command, args []string) (operate.EventFilter, error) {
	if err := a.refuse(cmd, f.checks()); err != nil {
		return operate.EventFilter{}, err
	}
	given := func(flag string, value *string) *string { return givenText(cmd, flag, value) }
	e := operate.EventFilter{
		Topic: given("topic", &f.topic), Type: given("type", &f.typ),
		AggregateType: given("aggregate-type", &f.aggregateType), AggregateID: given("aggregate-id", &f.aggregateID),
		MinAge: f.olderThan, MaxAge: f.newerThan, MinID: f.minID, MaxID: f.maxID, Error: f.failed,
	}
	var err error
	if e.PartitionKey, err = keyGiven(cmd, &f.key, f.emptyKey); err != nil {
		return e, err
	}
	if e.State, err = operate.ParseState(f.state); err != nil {
		return e, a.badFlag(cmd, "state", ": %w", err)
	}
	if e.Refs, err = refs(f.ids); err != nil {
		return e, a.badFlag(cmd, "id", ": %w", err)
	}
	if e.CreatedFrom, err = moments(f.from, a.now()); err != nil {
		return e, a.badFlag(cmd, "from", " %w", err)
	}
	if e.CreatedUntil, err = moments(f.until, a.now()); err != nil {
		return e, a.badFlag(cmd, "until", " %w", err)
	}
	named, err := refs(args)
	if err != nil {
		return e, &usageError{err}
	}
	e.Refs = append(e.Refs, named...)
	return e, nil
}

// givenText is the value of a flag, nil where it was not given.
func givenText(cmd *cobra.Command, flag string, value *string) *string {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	return value
}

func refs(ids []string) ([]operate.Ref, error) {
	var list []operate.Ref
	for _, id := range ids {
		ref, err := operate.ParseRef(id)
		if err != nil {
			return nil, err
		}
		list = append(list, ref)
	}
	return list, nil
}

// momentsHelp says what a flag for a time takes.
const momentsHelp = "2026-01-31, 2026-01-31T14:00:00Z, today, yesterday, or so long ago, such as 2h or 7d; without a zone it is UTC"

// moments reads a time: what has no zone is UTC, as all times that are printed; a day is its beginning, an age is counted back from now.
func moments(s string, now time.Time) (time.Time, error) {
	today := now.UTC().Truncate(24 * time.Hour)
	switch strings.ToLower(s) {
	case "":
		return time.Time{}, nil
	case "today":
		return today, nil
	case "yesterday":
		return today.AddDate(0, 0, -1), nil
	}
	if age, err := config.ParseAge(s); err == nil && age >= 0 {
		return now.UTC().Add(-age), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("is %q: want a time that exists, such as %s", s, momentsHelp)
}
