package cli

import (
	"fmt"
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
}

func (f *eventFilter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.state, "state", "", "pending (whatever is unpublished), parked, waiting, published, dead or any")
	flags.StringSliceVar(&f.ids, "id", nil, "the `id` of a row or of an event; several by commas, or again")
	flags.StringVar(&f.topic, "topic", "", "the `topic`")
	flags.StringVar(&f.key, "key", "", "the partition `key`")
	flags.StringVar(&f.typ, "type", "", "the event's `type`, such as order.confirmed.v1")
	flags.StringVar(&f.aggregateType, "aggregate-type", "", "the aggregate's `type`")
	flags.StringVar(&f.aggregateID, "aggregate-id", "", "the aggregate's `id`")
	flags.StringVar(&f.failed, "error", "", "a `part` of the error or its code, in any case")
	config.AgeVar(flags, &f.olderThan, "older-than", 0, "created at least so long ago, such as 24h or 7d")
	config.AgeVar(flags, &f.newerThan, "newer-than", 0, "created at most so long ago, such as 15m")
	flags.StringVar(&f.from, "from", "", "created at or after this `time`, such as 2026-01-31 or 2026-01-31T14:00:00Z")
	flags.StringVar(&f.until, "until", "", "created before this `time`")
	flags.Int64Var(&f.minID, "min-id", 0, "rows with this id or a larger one")
	flags.Int64Var(&f.maxID, "max-id", 0, "rows with this id or a smaller one")
	completeWords(cmd, "state", []string{"pending", "parked", "waiting", "published", "dead", "any"})
}

// filter is what the flags say. A text that was given counts, even when it is empty: an empty key is a key.
func (f *eventFilter) filter(cmd *cobra.Command) (operate.EventFilter, error) {
	given := func(flag string, value *string) *string { return givenText(cmd, flag, value) }
	e := operate.EventFilter{
		Topic: given("topic", &f.topic), PartitionKey: given("key", &f.key), Type: given("type", &f.typ),
		AggregateType: given("aggregate-type", &f.aggregateType), AggregateID: given("aggregate-id", &f.aggregateID),
		MinAge: f.olderThan, MaxAge: f.newerThan, MinID: f.minID, MaxID: f.maxID, Error: f.failed,
	}
	var err error
	if e.State, err = operate.ParseState(f.state); err != nil {
		return e, err
	}
	if e.Refs, err = refs(f.ids); err != nil {
		return e, err
	}
	if e.CreatedFrom, err = moments("from", f.from); err != nil {
		return e, err
	}
	e.CreatedUntil, err = moments("until", f.until)
	return e, err
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

// moments reads a time: what has no zone is UTC, as all times that are printed.
func moments(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, &usageError{fmt.Errorf("--%s %q: want a time that exists, such as 2026-01-31, 2026-01-31 14:00 or 2026-01-31T14:00:00+02:00; without a zone it is UTC", flag, s)}
}
