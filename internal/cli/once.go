package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// drainOnce runs the relays to their ends and says what remains.
func (a *app) drainOnce(ctx context.Context, relays *relayFleet, parts []*part, bar *progress) error {
	counted := expect(ctx, parts, bar)
	defer counted()
	done := make(chan error, 1)
	go func() { done <- relays.Run(ctx) }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			bar.set(settled(relays))
			bar.end()
			return a.reportOnce(ctx, relays, parts, err)
		case <-tick.C:
			bar.set(settled(relays))
		}
	}
}

// expect tells the bar what waits. No source waits for the count of another, whose database may be away. The returned function ends the count.
func expect(ctx context.Context, parts []*part, bar *progress) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var pending atomic.Int64
	for _, p := range parts {
		wg.Go(func() {
			if before, err := p.operator.Status(ctx); err == nil {
				bar.expect(int(pending.Add(before.Pending)))
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

func settled(relays *relayFleet) int {
	n := 0
	for _, s := range relays.States() {
		if s.Made {
			n += int(s.Engine.Stats().Settled)
		}
	}
	return n
}

// reportOnce tells of each source what was published and what remains. failed is what became of those that failed.
func (a *app) reportOnce(ctx context.Context, relays *relayFleet, parts []*part, failed error) error {
	several := len(parts) > 1
	var problems []error
	remains := false
	for i, s := range relays.States() {
		if s.Err != nil && !several {
			break
		}
		out := &onceReport{}
		if several {
			out.prefix = s.Name + ": "
		}
		problems = append(problems, out.source(ctx, s, parts[i]))
		remains = remains || out.remains
		if _, err := io.WriteString(a.stdout, out.text.String()); err != nil {
			return fmt.Errorf("print the report: %w", err)
		}
	}
	if err := errors.Join(append(problems, sourceErrors(failed, several))...); err != nil {
		return err
	}
	if remains {
		return &quietError{}
	}
	return nil
}

// onceReport is about one source.
type onceReport struct {
	prefix  string
	text    strings.Builder
	remains bool
}

func (o *onceReport) line(format string, args ...any) {
	fmt.Fprintf(&o.text, o.prefix+format+"\n", args...)
}

func (o *onceReport) source(ctx context.Context, s sourceState, p *part) error {
	var stats relay.Stats
	if s.Made {
		stats = s.Engine.Stats()
	}
	if s.Err != nil {
		o.line("failed after %s", plural(int(stats.Settled), "event"))
		return nil //nolint:nilerr // the caller tells it; this is the report beside it
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%sstopped after %s: the rest stays unpublished", o.prefix, plural(int(stats.Settled), "event"))
	}
	parked, err := p.operator.Parked(ctx)
	if err != nil {
		return fmt.Errorf("%slist parked keys: %w", o.prefix, err)
	}
	kept, more, err := p.operator.Keeping(ctx)
	if err != nil {
		return fmt.Errorf("%slist what is paused: %w", o.prefix, err)
	}
	o.remaining(stats, parked, kept, more)
	return nil
}

func (o *onceReport) remaining(stats relay.Stats, parked []relay.ParkedKey, kept []postgres.PauseStatus, morePauses int64) {
	o.line("published %s", plural(int(stats.Settled), "event"))
	if stats.OpenWriters > 0 {
		o.line("%s still open: their events come when they commit", plural(stats.OpenWriters, "writing transaction"))
	}
	for _, p := range parked {
		o.line("parked: topic %s, key %s, event %s (id %d): %s: %s",
			printable(abridged(p.Topic)), strconv.Quote(abridged(p.PartitionKey)), p.Event.EventID, p.Event.ID, p.Code, printable(p.Reason))
	}
	if stats.HeldKeys > 0 {
		o.line("held: %s behind an event that failed; the log says which", plural(stats.HeldKeys, "key"))
	}
	if stats.Dead > 0 {
		o.line("given up: %s, by policy: see outbox.dead_event", plural(int(stats.Dead), "event"))
	}
	if stats.DelayedKeys > 0 {
		o.line("waiting: %s for the next attempt with an event that failed; the log says which", plural(stats.DelayedKeys, "key"))
	}
	for _, name := range slices.Sorted(maps.Keys(stats.HeldTopics)) {
		o.line("held: %v", explain(stats.HeldTopics[name]))
	}
	for _, p := range kept {
		o.line("paused: %s, with %s; %s", pauseName(p.Pause), countedEvents(p.Pending, p.PendingCapped), pausedBy(p.By, p.At, p.Reason))
	}
	if morePauses > 0 {
		o.line("paused: %d more: outbox pause list shows them", morePauses)
	}
	see := "outbox status"
	if len(parked) > 0 {
		see += " and outbox keys --help"
	}
	if o.remains = max(len(parked), stats.ParkedKeys)+stats.HeldKeys+stats.DelayedKeys+len(stats.HeldTopics)+len(kept) > 0; o.remains {
		o.line("their events remain: see %s", see)
	}
}
