package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// Letters implements [operate.LetterTopics]: it reads dead-letter topics, sends their records back, and deletes them, by clients of its own.
type Letters struct {
	cfg      Config
	replayer *Replayer
	opened   bool
	client   *kgo.Client
	admin    *kadm.Client
}

var _ operate.LetterTopics = (*Letters)(nil)

// NewLetters checks the configuration and connects to nothing yet. CreateTopics is not obeyed: a topic that is gone shall not come back by a redrive.
func NewLetters(c Config) (*Letters, error) {
	r, err := NewReplayer(c)
	if err != nil {
		return nil, err
	}
	return &Letters{cfg: r.publisher.cfg, replayer: r}, nil
}

// letterTimeout bounds one request of those that read.
const letterTimeout = 15 * time.Second

// Open implements [operate.LetterTopics].
func (l *Letters) Open(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.cfg.produceTimeout()+l.cfg.requestOverhead(), errors.New("no answer in time"))
	defer cancel()
	if l.client == nil {
		client, err := kgo.NewClient(clientOptions(l.cfg, newNetwork(l.cfg))...)
		if err != nil {
			return l.cfg.outageError("make a client for", l.cfg.brokerList(), err)
		}
		l.client, l.admin = client, kadm.NewClient(client)
	}
	if err := l.client.Ping(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return l.cfg.outageError("reach kafka at", l.cfg.brokerList(), err)
	}
	return nil
}

// Close implements [operate.LetterTopics].
func (l *Letters) Close() {
	l.replayer.Close()
	if l.client != nil {
		l.client.Close()
	}
}

// Partitions implements [operate.LetterTopics]. The end is that of what is committed: what a producer's open transaction has written is not there yet.
func (l *Letters) Partitions(ctx context.Context, topic string) ([]operate.LetterPartition, error) {
	if err := outbox.CheckTopic(topic); err != nil {
		return nil, operate.Refuse(operate.CodeInvalid, "topic %q: %v", topic, err)
	}
	ctx, cancel := context.WithTimeout(ctx, letterTimeout)
	defer cancel()
	found, err := l.admin.ListTopics(ctx, topic)
	if err != nil {
		return nil, l.cfg.outageError("look at topics of", l.cfg.brokerList(), err)
	}
	if err := l.topicError(topic, found[topic].Err); err != nil {
		return nil, err
	}
	first, err := l.offsets(ctx, topic, l.admin.ListStartOffsets)
	if err != nil {
		return nil, err
	}
	next, err := l.offsets(ctx, topic, l.admin.ListCommittedOffsets)
	if err != nil {
		return nil, err
	}
	var all []operate.LetterPartition
	for n := range found[topic].Partitions {
		all = append(all, operate.LetterPartition{Number: n, First: first[n], Next: max(first[n], next[n])})
	}
	slices.SortFunc(all, func(a, b operate.LetterPartition) int { return cmp.Compare(a.Number, b.Number) })
	return all, nil
}

func (l *Letters) topicError(topic string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return operate.Refuse(operate.CodeNotFound, "there is no topic %s", topic)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return operate.Refuse(operate.CodeForbidden, "topic %s: the user may not do this there: grant READ and DESCRIBE to look, WRITE on the original topics to redrive, DELETE to purge", topic)
	}
	return &operate.Error{Code: operate.CodeUnavailable, Text: "topic " + topic, Err: l.cfg.sent.discreet(err)}
}

func (l *Letters) offsets(ctx context.Context, topic string, list func(context.Context, ...string) (kadm.ListedOffsets, error)) (map[int32]int64, error) {
	listed, err := list(ctx, topic)
	if err != nil {
		return nil, l.cfg.outageError("ask for offsets at", l.cfg.brokerList(), err)
	}
	offsets := map[int32]int64{}
	for n, o := range listed[topic] {
		if o.Err != nil {
			return nil, l.topicError(topic, fmt.Errorf("partition %d: %w", n, o.Err))
		}
		offsets[n] = o.Offset
	}
	return offsets, nil
}

// OffsetsFrom implements [operate.LetterTopics].
func (l *Letters) OffsetsFrom(ctx context.Context, topic string, t time.Time) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, letterTimeout)
	defer cancel()
	return l.offsets(ctx, topic, func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return l.admin.ListOffsetsAfterMilli(ctx, t.UnixMilli(), topics...)
	})
}

// Targets implements [operate.LetterTopics].
func (l *Letters) Targets(ctx context.Context, topics []string) (map[string]error, error) {
	ctx, cancel := context.WithTimeout(ctx, letterTimeout)
	defer cancel()
	found, err := (&lookup{client: l.client, admin: l.admin, log: l.cfg.Logger}).describe(ctx, topics)
	if err != nil {
		return nil, l.cfg.outageError("look at topics of", l.cfg.brokerList(), err)
	}
	out := make(map[string]error, len(topics))
	for _, name := range topics {
		out[name] = found[name].Err
	}
	return out, nil
}

// DeleteBefore implements [operate.LetterTopics].
func (l *Letters) DeleteBefore(ctx context.Context, topic string, offsets map[int32]int64) (map[int32]error, error) {
	ctx, cancel := context.WithTimeout(ctx, letterTimeout)
	defer cancel()
	var before kadm.Offsets
	for n, at := range offsets {
		before.AddOffset(topic, n, at, -1)
	}
	answers, err := l.admin.DeleteRecords(ctx, before)
	if err != nil && len(answers) == 0 {
		return nil, l.cfg.outageError("delete records at", l.cfg.brokerList(), err)
	}
	failed := map[int32]error{}
	for n := range offsets {
		answer, ok := answers.Lookup(topic, n)
		switch {
		case !ok:
			failed[n] = errors.New("Kafka did not answer for it: look again with outbox dlt list")
		case errors.Is(answer.Err, kerr.PolicyViolation):
			failed[n] = fmt.Errorf("Kafka deletes records of topics with cleanup.policy delete only: %w", l.cfg.sent.discreet(answer.Err))
		case answer.Err != nil:
			failed[n] = l.topicError(topic, answer.Err)
		}
	}
	return failed, nil
}

// Resend implements [operate.LetterTopics].
func (l *Letters) Resend(ctx context.Context, records []operate.Resent) (errs []error, lost error) {
	if len(records) == 0 {
		return nil, nil
	}
	if !l.opened {
		if err := l.replayer.Open(ctx); err != nil {
			return nil, fmt.Errorf("nothing more was sent: %w", err)
		}
		l.opened = true
	}
	events := make([]*relay.Event, len(records))
	for i, r := range records {
		// Only what a key is known by. Records without a key have no order.
		key := "k" + string(r.Key)
		if r.Key == nil {
			key = fmt.Sprint("n", i)
		}
		events[i] = &relay.Event{ID: int64(i), Topic: r.To, PartitionKey: key}
	}
	return l.replayer.send(ctx, events, func(done func(*relay.Event, error)) *call {
		return rawCall(events, records, done)
	})
}

// rawCall is a call of records as they are.
func rawCall(events []*relay.Event, records []operate.Resent, done func(*relay.Event, error)) *call {
	c := &call{items: make([]item, len(events)), done: done, left: len(events)}
	for i, e := range events {
		it, r := &c.items[i], records[i]
		it.Context, it.event, it.call = context.Background(), e, c
		it.rec = kgo.Record{Topic: r.To, Key: r.Key, Value: r.Value, Headers: ownHeaders(r.LetterRecord)}
		it.home = r.Into + 1
		it.size = recordSize(&it.rec)
	}
	return c
}
