package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/inbox"
)

// consumerLog implements [inbox.Log].
type consumerLog struct {
	client *kgo.Client
	// usual and large send records on.
	usual  *sender
	large  *largeSender
	logger *slog.Logger
	sent   *secrets

	mu sync.Mutex
	// from is where the group goes on in each partition: behind what was read of it.
	from map[inbox.Partition]int64
}

func newConsumerLog(c Config) *consumerLog {
	return &consumerLog{usual: newSender(c), large: newLargeSender(c), logger: c.Logger, sent: c.sent, from: map[inbox.Partition]int64{}}
}

// Pause implements [inbox.Log].
func (l *consumerLog) Pause(partitions []inbox.Partition) {
	l.client.PauseFetchPartitions(byTopic(partitions))
}

// Resume implements [inbox.Log].
func (l *consumerLog) Resume(partitions []inbox.Partition) {
	l.client.ResumeFetchPartitions(byTopic(partitions))
}

func byTopic(partitions []inbox.Partition) map[string][]int32 {
	m := map[string][]int32{}
	for _, p := range partitions {
		m[p.Topic] = append(m[p.Topic], p.Number)
	}
	return m
}

// Commit implements [inbox.Log]. Kafka refuses it of a member that is not one any more.
func (l *consumerLog) Commit(ctx context.Context, next map[inbox.Partition]int64) error {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for p, offset := range next {
		if offsets[p.Topic] == nil {
			offsets[p.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[p.Topic][p.Number] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	var errs []error
	l.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			errs = append(errs, l.sent.discreet(err))
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					errs = append(errs, fmt.Errorf("%s, partition %d: %w", t.Topic, p.Partition, err))
				}
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("commit offsets: %w", err)
	}
	return nil
}

// Send implements [inbox.Log].
func (l *consumerLog) Send(ctx context.Context, topic string, r *inbox.Record, headers []inbox.Header) error {
	record := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value, Headers: make([]kgo.RecordHeader, len(headers))}
	for i, h := range headers {
		record.Headers[i] = kgo.RecordHeader{Key: h.Key, Value: h.Value}
	}
	if isLarge(record) {
		return l.sent.discreet(l.large.send(ctx, record))
	}
	return l.sent.discreet(l.usual.send(ctx, record))
}

// begin notes where the group goes on.
func (l *consumerLog) begin(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, partitions := range offsets {
		for n, offset := range partitions {
			l.from[inbox.Partition{Topic: topic, Number: n}] = offset.EpochOffset().Offset
		}
	}
	return offsets, nil
}

// check says when records are missing that the group has not read, and when it is given some again.
func (l *consumerLog) check(p kgo.FetchTopicPartition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := inbox.Partition{Topic: p.Topic, Number: p.Partition}
	from, has := l.from[name]
	if !has || p.Err != nil {
		return
	}
	first := p.LogStartOffset
	l.from[name] = max(from, first)
	if n := len(p.Records); n > 0 {
		first = p.Records[0].Offset
		l.from[name] = p.Records[n-1].Offset + 1
	}
	// What was removed behind the first record was not: it is here.
	switch to := min(first, p.LogStartOffset); {
	case from < 0:
	case to > from:
		// Kafka does not say how many of the offsets were ends of transactions, or records that a transaction had taken back.
		l.logger.Error("records were removed before they were handled: at most as many as is said, fewer where producers use transactions; the topic's retention is shorter than the consumer was away, or its key was stuck",
			"topic", p.Topic, "partition", p.Partition, "from", from, "to", to, "records", to-from)
	case first < from && len(p.Records) > 0:
		l.logger.Error("a partition has gone back: its log was cut, or the topic was made again; what is there is handled unless its event id was",
			"topic", p.Topic, "partition", p.Partition, "from", from, "to", first)
	}
}

// forget returns the partitions that are known of the topics, and knows them no more.
func (l *consumerLog) forget(topics []string) (known []inbox.Partition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.from {
		if slices.Contains(topics, p.Topic) {
			known = append(known, p)
			delete(l.from, p)
		}
	}
	return known
}
