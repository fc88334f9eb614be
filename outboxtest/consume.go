package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/inbox"
)

// Consumed is what became of the records that [Consume] has read.
type Consumed struct {
	// Handled, Repeats and Ignored count records by [inbox.Result].
	Handled, Repeats, Ignored int
	// Failed are those that could not be handled, in the order in which they were read; nil if there are none.
	Failed []Failed
}

// Failed is a record that could not be handled, and why.
type Failed struct {
	Record *inbox.Record
	Err    error
}

// ConsumeTimeout is how long [Consume] waits at most for Kafka's next records.
const ConsumeTimeout = 30 * time.Second

// Consume handles, from the first record on, all that is in the topics, also what is added meanwhile; when it returns, everything there was handled or has failed.
// h is what inbox.NewProcessor makes. Partitions are read side by side, the records of each one by one in their order, each in a transaction of its own and each once: there are no
// retries, and a record that fails stops nothing behind it, as if the policy had given it up at once.
//
// It is no member of the consumer's group and commits no offsets. Called again, it reads everything again: what was handled is a repeat, what has failed is tried again.
// A topic that is missing fails the test.
func Consume(t testing.TB, h inbox.Handling, brokers []string, topics ...string) Consumed {
	t.Helper()
	done, err := consume(t.Context(), h, brokers, topics)
	if err != nil {
		t.Fatalf("consume %s: %v", strings.Join(topics, ", "), err)
	}
	return done
}

// RequireConsumed is [Consume], and fails the test if a record could not be handled.
func RequireConsumed(t testing.TB, h inbox.Handling, brokers []string, topics ...string) Consumed {
	t.Helper()
	done := Consume(t, h, brokers, topics...)
	if len(done.Failed) > 0 {
		var b strings.Builder
		fmt.Fprintf(&b, "%d of %d records not handled", len(done.Failed), done.total())
		for _, f := range done.Failed[:min(len(done.Failed), shown)] {
			fmt.Fprintf(&b, "\n  %s", f)
		}
		if len(done.Failed) > shown {
			fmt.Fprintf(&b, "\n  and %d more", len(done.Failed)-shown)
		}
		t.Fatal(b.String())
	}
	return done
}

// String says which record it is, and why it has failed.
func (f Failed) String() string {
	return fmt.Sprintf("%s at %s: %v", describe(inbox.EventType(f.Record), "", string(f.Record.Key)), f.Record.Place(), f.Err)
}

func (c Consumed) total() int { return c.Handled + c.Repeats + c.Ignored + len(c.Failed) }

func consume(ctx context.Context, h inbox.Handling, brokers, topics []string) (done Consumed, err error) {
	if len(topics) == 0 {
		return done, errors.New("name at least one topic")
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...), kgo.ClientID("outboxtest"), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// Of a transaction that is over, only its marker may be left at a partition's end.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		return done, fmt.Errorf("make kafka client: %w", err)
	}
	defer client.Close()
	next := map[inbox.Partition]int64{}
	for {
		quiet, err := atEnd(ctx, client, topics, next)
		if err != nil || quiet {
			return done, err
		}
		polling, cancel := context.WithTimeout(ctx, ConsumeTimeout)
		fetches := client.PollFetches(polling)
		cancel()
		if err := fetches.Err(); err != nil {
			return done, fmt.Errorf("read records: %w", err)
		}
		for _, r := range fetches.Records() {
			next[inbox.Partition{Topic: r.Topic, Number: r.Partition}] = r.Offset + 1
			if r.Attrs.IsControl() {
				continue
			}
			if err := done.handle(ctx, h, received(r)); err != nil {
				return done, err
			}
		}
	}
}

// atEnd tells whether everything was read that is in the topics now.
func atEnd(ctx context.Context, client *kgo.Client, topics []string, next map[inbox.Partition]int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, ConsumeTimeout)
	defer cancel()
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return false, fmt.Errorf("ask where the topics begin: %w; is each of them there? Drain makes those that it publishes to", err)
	}
	ends, err := admin.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return false, fmt.Errorf("ask where the topics end: %w", err)
	}
	quiet := true
	ends.Each(func(end kadm.ListedOffset) {
		from := next[inbox.Partition{Topic: end.Topic, Number: end.Partition}]
		if start, has := starts.Lookup(end.Topic, end.Partition); has {
			from = max(from, start.Offset)
		}
		quiet = quiet && from >= end.Offset
	})
	return quiet, nil
}

func (c *Consumed) handle(ctx context.Context, h inbox.Handling, r *inbox.Record) error {
	switch o := h.Handle(ctx, []*inbox.Record{r})[0]; {
	case errors.Is(o.Err, inbox.ErrUnavailable) || ctx.Err() != nil:
		return fmt.Errorf("handle the record at %s: %w", r.Place(), o.Err)
	case o.Err != nil:
		c.Failed = append(c.Failed, Failed{r, o.Err})
	case o.Result == inbox.Handled:
		c.Handled++
	case o.Result == inbox.Repeat:
		c.Repeats++
	case o.Result == inbox.Ignored:
		c.Ignored++
	}
	return nil
}

func received(r *kgo.Record) *inbox.Record {
	in := &inbox.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		in.Headers = append(in.Headers, inbox.Header{Key: h.Key, Value: h.Value})
	}
	return in
}
