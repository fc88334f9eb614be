package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// drainOnce runs the relay to its end and says what remains.
func (a *app) drainOnce(ctx context.Context, engine *relay.Relay, operator *postgres.Operator, bar *progress) error {
	if before, err := operator.Status(ctx); err == nil {
		bar.expect(int(before.Pending))
	}
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			stats := engine.Stats()
			bar.set(int(stats.Settled))
			bar.end()
			if err != nil {
				return err
			}
			return a.reportOnce(ctx, stats, operator)
		case <-tick.C:
			bar.set(int(engine.Stats().Settled))
		}
	}
}

func (a *app) reportOnce(ctx context.Context, stats relay.Stats, operator *postgres.Operator) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stopped after %s: the rest stays unpublished", plural(int(stats.Settled), "event"))
	}
	parked, err := operator.Parked(ctx)
	if err != nil {
		return fmt.Errorf("list parked keys: %w", err)
	}
	var report strings.Builder
	fmt.Fprintf(&report, "published %s\n", plural(int(stats.Settled), "event"))
	if stats.OpenWriters > 0 {
		fmt.Fprintf(&report, "%s still open: their events come when they commit\n", plural(stats.OpenWriters, "writing transaction"))
	}
	for _, p := range parked {
		fmt.Fprintf(&report, "parked: topic %s, key %s, event %s (id %d): %s: %s\n",
			printable(abridged(p.Topic)), strconv.Quote(abridged(p.PartitionKey)), p.Event.EventID, p.Event.ID, p.Code, printable(p.Reason))
	}
	for _, name := range slices.Sorted(maps.Keys(stats.HeldTopics)) {
		fmt.Fprintf(&report, "held: %v\n", explain(stats.HeldTopics[name]))
	}
	remains := len(parked)+len(stats.HeldTopics) > 0
	if remains {
		report.WriteString("their events remain: see outbox status and outbox keys --help\n")
	}
	if _, err := io.WriteString(a.stdout, report.String()); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if remains {
		return &quietError{}
	}
	return nil
}
