package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ledger holds what must arrive: the id of each event by its event id.
type ledger map[uuid.UUID]int64

// audit compares records with a ledger, in the order in which they are read.
type audit struct {
	ledger ledger
	seen   map[uuid.UUID]bool
	last   map[string]int64 // the highest id so far, by key

	foreign, repeated, turned int
}

func newAudit(l ledger) *audit {
	return &audit{ledger: l, seen: make(map[uuid.UUID]bool, len(l)), last: map[string]int64{}}
}

func (a *audit) record(r *kgo.Record) {
	event, err := eventID(r)
	id, known := a.ledger[event]
	switch {
	case err != nil || !known:
		a.foreign++
		return
	case a.seen[event]:
		a.repeated++
		return
	}
	a.seen[event] = true
	if id < a.last[string(r.Key)] {
		a.turned++
		return
	}
	a.last[string(r.Key)] = id
}

// verdict is nil if each event was there once and in the order of its key, and nothing else.
func (a *audit) verdict() error {
	lost := len(a.ledger) - len(a.seen)
	if lost == 0 && a.repeated == 0 && a.turned == 0 && a.foreign == 0 {
		return nil
	}
	return fmt.Errorf("of %d events %d are lost, %d repeated, %d behind a later one of their key, and %d records are foreign",
		len(a.ledger), lost, a.repeated, a.turned, a.foreign)
}

// eventID reads the header by which consumers know an event.
func eventID(r *kgo.Record) (uuid.UUID, error) {
	for _, h := range r.Headers {
		if h.Key == "x-event-id" {
			return uuid.ParseBytes(h.Value)
		}
	}
	return uuid.UUID{}, errors.New("the record has no x-event-id")
}

// verify reads the whole topic and fails unless it holds exactly the ledger, and the table agrees.
func (s *stand) verify(ctx context.Context, topic string, t *outboxTable, l ledger) error {
	left, err := t.unsettled(ctx)
	if err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%d of %d events are not settled", left, len(l))
	}
	a, err := s.audit(ctx, topic, l)
	if err != nil {
		return err
	}
	return a.verdict()
}

// audit reads the whole topic.
func (s *stand) audit(ctx context.Context, topic string, l ledger) (*audit, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	size, err := s.topicSize(ctx, topic)
	if err != nil {
		return nil, err
	}
	a := newAudit(l)
	return a, s.readTopic(ctx, topic, size, a.record)
}

// topicSize is the number of records: end offsets alone, as each topic is new and nothing in it is transactional.
func (s *stand) topicSize(ctx context.Context, topic string) (int, error) {
	ends, err := s.admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("list end offsets of %s: %w", topic, err)
	}
	var size int64
	for _, o := range ends.Offsets()[topic] {
		size += o.At
	}
	return int(size), nil
}

// readTopic hands on the first n records.
func (s *stand) readTopic(ctx context.Context, topic string, n int, each func(*kgo.Record)) error {
	c, err := s.consumer(topic)
	if err != nil {
		return err
	}
	defer c.Close()
	for n > 0 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read topic %s: %w", topic, err)
		}
		fetches.EachRecord(each)
		n -= fetches.NumRecords()
	}
	return nil
}

// consumer reads a topic from its beginning, without a group.
func (s *stand) consumer(topic string) (*kgo.Client, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.Brokers()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, fmt.Errorf("make consumer: %w", err)
	}
	return c, nil
}
