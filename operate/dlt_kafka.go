package operate

import (
	"context"
	"time"
)

// LetterTopics is Kafka as it is needed for dead letters. Package kafka implements it. Its errors are an [Error] where the caller can do something about them.
type LetterTopics interface {
	// Open reaches the brokers, or says why not.
	Open(ctx context.Context) error
	// Partitions returns what a topic has, by number. Without such a topic the error has [CodeNotFound].
	Partitions(ctx context.Context, topic string) ([]LetterPartition, error)
	// OffsetsFrom returns for each partition the first offset of a record whose time is at or after t: nothing in front of it is of t or later. Without one it is the end.
	OffsetsFrom(ctx context.Context, topic string, t time.Time) (map[int32]int64, error)
	// Read calls fn for each record that there is in the ranges, in the order of the offsets of each. It holds some megabytes in memory, and fn may take its time. An error of
	// fn ends it, and is returned.
	Read(ctx context.Context, ranges []LetterRange, fn func(*LetterRecord) error) error
	// Targets tells of topics why nothing can be sent to them; nil where it can.
	Targets(ctx context.Context, topics []string) (map[string]error, error)
	// Resend sends records in order and returns when each is acknowledged or has failed: errs has one entry for each, nil when it is in Kafka. Key, value and headers are those
	// of the record, byte for byte, without the headers that say of a failure. Behind one that fails no later one of its key is sent in the same call. When ctx ends it waits some
	// seconds more for what is on its way. lost tells that the client is gone: some of errs are of records that may be in Kafka or not.
	Resend(ctx context.Context, records []Resent) (errs []error, lost error)
	// DeleteBefore deletes what is before an offset, by partition, and returns for those where that has failed why.
	DeleteBefore(ctx context.Context, topic string, offsets map[int32]int64) (map[int32]error, error)
	// Close ends the clients.
	Close()
}

// LetterPartition is a partition with the offsets of its first record and of the next one that it will have.
type LetterPartition struct {
	Number      int32
	First, Next int64
}

// LetterRange are the offsets of a partition from From on and before To.
type LetterRange struct {
	Topic     string
	Partition int32
	From, To  int64
}

// Resent is a record to be sent.
type Resent struct {
	*LetterRecord
	// To is the topic, Into the partition, if the topic has it; -1 leaves it to the key.
	To   string
	Into int32
}

// LetterKeeper remembers which letters were sent back, and knows what consumers have handled. Package postgres implements it.
type LetterKeeper interface {
	// RedrivenOf returns those of the letters that were sent back; of none it tells whether it could be asked. A letter of another time than the one that was is another one: its topic was made anew.
	RedrivenOf(ctx context.Context, letters []*LetterRecord) (map[LetterRef]Redriven, error)
	// KeptOf returns those of the relay's letters whose events are among the dead ones still.
	KeptOf(ctx context.Context, letters []*LetterRecord) (map[LetterRef]struct{}, error)
	// MarkRedriven remembers letters, in one transaction. With none of them it tells whether it could.
	MarkRedriven(ctx context.Context, letters []*LetterRecord, by string) error
	// ForgetRedriven forgets those of a partition that are before an offset.
	ForgetRedriven(ctx context.Context, topic string, partition int32, before int64) error
	// Handled returns those of the event ids that a consumer's inbox has.
	Handled(ctx context.Context, consumer string, ids []string) (map[string]struct{}, error)
}

// letters reaches the database and then Kafka.
func (s *Service) letters(ctx context.Context, k LetterTopics) (LetterKeeper, error) {
	keeper, able := s.store.(LetterKeeper)
	if !able {
		return nil, Refuse(CodeUnavailable, "this service does not know dead letters")
	}
	if _, err := keeper.RedrivenOf(ctx, nil); err != nil {
		return nil, err
	}
	return keeper, k.Open(ctx)
}
