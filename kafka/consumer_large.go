package kafka

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// defaultBatchBytes is what a client puts into a batch at most that is not told otherwise.
const defaultBatchBytes = 1_000_012

// isLarge tells that a client of the default refuses the record, whatever its topic takes.
func isLarge(r *kgo.Record) bool { return recordSize(r)+clientOverhead > defaultBatchBytes }

// largeSender sends large records, one at a time: two in a batch could be too much for a topic that takes each of them. It has a client of its own, made when it is needed,
// that leaves it to the brokers what is too large: when max.message.bytes of a topic was raised, the next try goes through.
type largeSender struct {
	cfg Config
	// turn holds the sender's only turn.
	turn chan struct{}

	mu     sync.Mutex
	client *kgo.Client
	closed bool
}

func newLargeSender(c Config) *largeSender { return &largeSender{cfg: c, turn: make(chan struct{}, 1)} }

func (s *largeSender) send(ctx context.Context, record *kgo.Record) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case s.turn <- struct{}{}:
	}
	defer func() { <-s.turn }()
	client, err := s.open()
	if err != nil {
		return err
	}
	return produceOne(ctx, client, record)
}

func (s *largeSender) open() (*kgo.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, kgo.ErrClientClosed
	}
	if s.client == nil {
		client, err := kgo.NewClient(append(clientOptions(s.cfg, newNetwork(s.cfg)), kgo.ProducerBatchMaxBytes(maxBatchBytes))...)
		if err != nil {
			return nil, fmt.Errorf("make kafka client for large records: %w", err)
		}
		s.client = client
	}
	return s.client, nil
}

func (s *largeSender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed = true; s.client != nil {
		s.client.Close()
	}
}
