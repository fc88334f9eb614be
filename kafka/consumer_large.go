package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// defaultBatchBytes is what a client puts into a batch at most that is not told otherwise.
const defaultBatchBytes = 1_000_012

// isLarge tells that a client of the default refuses the record, whatever its topic takes.
func isLarge(r *kgo.Record) bool { return recordSize(r)+clientOverhead > defaultBatchBytes }

// largeSender sends large records, one at a time: two in a batch could be too much for a topic that takes each of them. It leaves it to the brokers what is too large: when
// max.message.bytes of a topic was raised, the next try goes through.
type largeSender struct {
	*sender
	// turn holds the sender's only turn.
	turn chan struct{}
}

func newLargeSender(c Config) *largeSender {
	return &largeSender{newSender(c, kgo.ProducerBatchMaxBytes(maxBatchBytes)), make(chan struct{}, 1)}
}

func (s *largeSender) send(ctx context.Context, record *kgo.Record) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case s.turn <- struct{}{}:
	}
	defer func() { <-s.turn }()
	return s.sender.send(ctx, record)
}
