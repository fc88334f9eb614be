package relay

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

const (
	// burstLines is how many events of a burst have a line of their own, burstTime how long a burst lasts at most.
	burstLines = 10
	burstTime  = 10 * time.Second
	// burstNames is how many topics and codes the line that sums up names.
	burstNames = 5
)

// failureLines is what the log says of failed events. One mistake, such as a limit that is too low, may fail thousands at once.
type failureLines struct{ parked, followed, buried, locked, retried burst }

func newFailureLines(log *slog.Logger, keys bool, now func() time.Time) *failureLines {
	of := func(level slog.Level, text, more, note string) burst {
		return burst{log: log, keys: keys, now: now, level: level, text: text, more: more, note: note}
	}
	return &failureLines{
		parked: of(slog.LevelError, "key parked: its events wait for an operator, the others go on", "more keys parked", "outbox keys list shows them"),
		followed: of(slog.LevelWarn, "key waits: another key stops the aggregate of its next event", "more keys wait for aggregates",
			"outbox keys list shows them"),
		buried: of(slog.LevelError, "event given up: it is with the dead ones, its key goes on", "more events given up", "outbox events list --state dead shows them"),
		locked: of(slog.LevelWarn, "event given up, but its row is locked: its key waits until the transaction ends that has it", "more events given up whose rows are locked",
			"outbox events show ID says what has a row locked"),
		retried: of(slog.LevelWarn, "event failed, it is tried again: its key waits, the others go on", "more events failed, they are tried again",
			"outbox events list --state waiting shows them"),
	}
}

// tick sums up the bursts whose time is over.
func (l *failureLines) tick(ctx context.Context) {
	for _, b := range []*burst{&l.parked, &l.followed, &l.buried, &l.locked, &l.retried} {
		b.end(ctx)
	}
}

// close sums up whatever has no line yet.
func (l *failureLines) close(ctx context.Context) {
	for _, b := range []*burst{&l.parked, &l.followed, &l.buried, &l.locked, &l.retried} {
		b.sumUp(ctx)
	}
}

// burst is what is said of one kind of failure: the first events one by one, the others in one line. Keys are named only when they are asked for: they are the services' data.
type burst struct {
	log   *slog.Logger
	keys  bool
	now   func() time.Time
	level slog.Level
	// text is the line of one event, more the one of many, note the command that shows those.
	text, more, note string

	began time.Time
	said  int
	// unsaid counts those without a line; first and last are two of them, codes and topics theirs.
	unsaid        int
	first, last   Ref
	codes, topics counted
}

// say says it of one event, with attributes of its own behind the common ones.
func (b *burst) say(ctx context.Context, f FailedEvent, attrs ...any) {
	b.end(ctx)
	if b.said == 0 {
		b.began = b.now()
	}
	if b.said < burstLines {
		b.said++
		b.log.Log(ctx, b.level, b.text, append(engine.WithKey(b.keys, f.PartitionKey,
			"topic", engine.Short(f.Topic), "id", f.Event.ID, "event_id", f.Event.EventID, "code", f.Code, "reason", f.Reason), attrs...)...)
		return
	}
	if b.unsaid == 0 {
		b.first = f.Event
	}
	b.unsaid++
	b.last = f.Event
	b.codes.add(f.Code)
	b.topics.add(engine.Short(f.Topic))
}

func (b *burst) end(ctx context.Context) {
	if b.said > 0 && b.now().Sub(b.began) >= burstTime {
		b.sumUp(ctx)
	}
}

func (b *burst) sumUp(ctx context.Context) {
	if b.unsaid > 0 {
		b.log.Log(ctx, b.level, b.more, "events", b.unsaid, "topics", b.topics.String(), "codes", b.codes.String(),
			"first_id", b.first.ID, "first_event_id", b.first.EventID, "last_id", b.last.ID, "last_event_id", b.last.EventID,
			"note", b.note)
	}
	b.said, b.unsaid, b.codes, b.topics = 0, 0, counted{}, counted{}
}

// counted counts names, the first few of them one by one.
type counted struct {
	names  []string
	counts []int
	others int
}

func (c *counted) add(name string) {
	for i, known := range c.names {
		if known == name {
			c.counts[i]++
			return
		}
	}
	if len(c.names) == burstNames {
		c.others++
		return
	}
	c.names, c.counts = append(c.names, name), append(c.counts, 1)
}

func (c *counted) String() string {
	var parts []string
	for i, name := range c.names {
		parts = append(parts, fmt.Sprintf("%s: %d", name, c.counts[i]))
	}
	if c.others > 0 {
		parts = append(parts, fmt.Sprintf("others: %d", c.others))
	}
	return strings.Join(parts, ", ")
}
