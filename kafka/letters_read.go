package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/operate"
)

const (
	// letterFetchBytes bounds what one answer of a broker holds.
	letterFetchBytes = 1 << 20
	// letterPatience is how long a partition may give nothing that has something.
	letterPatience = 30 * time.Second
)

// letterReading is a read of ranges.
type letterReading struct {
	letters *Letters
	client  *kgo.Client
	// left are the partitions that are not at their end.
	left map[inbox.Partition]*letterPosition
}

type letterPosition struct{ next, end int64 }

// Read implements [operate.LetterTopics]. Offsets that no record of an application has, such as those of a transaction's end, are passed by; so is what is deleted meanwhile.
func (l *Letters) Read(ctx context.Context, ranges []operate.LetterRange, fn func(*operate.LetterRecord) error) error {
	r := &letterReading{letters: l, left: map[inbox.Partition]*letterPosition{}}
	from := map[string]map[int32]kgo.Offset{}
	for _, at := range ranges {
		if at.From >= at.To {
			continue
		}
		r.left[inbox.Partition{Topic: at.Topic, Number: at.Partition}] = &letterPosition{at.From, at.To}
		if from[at.Topic] == nil {
			from[at.Topic] = map[int32]kgo.Offset{}
		}
		from[at.Topic][at.Partition] = kgo.NewOffset().At(at.From)
	}
	if len(from) == 0 {
		return nil
	}
	client, err := kgo.NewClient(append(clientOptions(l.cfg, newNetwork(l.cfg)),
		kgo.ConsumePartitions(from),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// The end of a transaction has an offset, too: without it a partition that ends with one would never be at its end.
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(500*time.Millisecond), kgo.FetchMaxBytes(letterFetchBytes), kgo.FetchMaxPartitionBytes(letterFetchBytes), kgo.MaxConcurrentFetches(1),
	)...)
	if err != nil {
		return l.cfg.outageError("make a client for", l.cfg.brokerList(), err)
	}
	defer client.Close()
	r.client = client
	return r.run(ctx, fn)
}

func (r *letterReading) run(ctx context.Context, fn func(*operate.LetterRecord) error) error {
	last := time.Now()
	for len(r.left) > 0 {
		fetches, err := r.poll(ctx)
		if err != nil {
			return err
		}
		moved := false
		for it := fetches.RecordIter(); !it.Done(); {
			took, err := r.take(it.Next(), fn)
			if err != nil {
				return err
			}
			moved = moved || took
		}
		r.endPartitions()
		switch {
		case moved:
			last = time.Now()
		case time.Since(last) > letterPatience:
			return r.stuck()
		default:
			if err := r.passDeleted(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// poll returns what has come, which may be nothing.
func (r *letterReading) poll(ctx context.Context) (kgo.Fetches, error) {
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	fetches := r.client.PollRecords(short, pollRecords)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var failed error
	fetches.EachError(func(topic string, _ int32, err error) {
		if errors.Is(err, context.DeadlineExceeded) || failed != nil {
			return
		}
		if topic == "" {
			failed = r.letters.cfg.outageError("read from", r.letters.cfg.brokerList(), err)
			return
		}
		failed = r.letters.topicError(topic, err)
	})
	return fetches, failed
}

// take hands a record on, if it is in its range, and tells whether the partition has moved.
func (r *letterReading) take(rec *kgo.Record, fn func(*operate.LetterRecord) error) (moved bool, err error) {
	at := r.left[inbox.Partition{Topic: rec.Topic, Number: rec.Partition}]
	if at == nil || rec.Offset < at.next {
		return false, nil
	}
	inside := rec.Offset < at.end
	at.next = rec.Offset + 1
	if !inside || rec.Attrs.IsControl() {
		return true, nil
	}
	return true, fn(letterRecord(rec))
}

// endPartitions fetches no more of those that are at their end.
func (r *letterReading) endPartitions() {
	for p, at := range r.left {
		if at.next >= at.end {
			delete(r.left, p)
			r.client.PauseFetchPartitions(map[string][]int32{p.Topic: {p.Number}})
		}
	}
}

// passDeleted moves partitions to where they begin by now.
func (r *letterReading) passDeleted(ctx context.Context) error {
	asked := map[string]map[int32]int64{}
	for p, at := range r.left {
		if asked[p.Topic] == nil {
			first, err := r.letters.offsets(ctx, p.Topic, r.letters.admin.ListStartOffsets)
			if err != nil {
				return err
			}
			asked[p.Topic] = first
		}
		at.next = max(at.next, asked[p.Topic][p.Number])
	}
	r.endPartitions()
	return nil
}

func (r *letterReading) stuck() error {
	for p, at := range r.left {
		return operate.Refuse(operate.CodeUnavailable, "partition %d of %s gives nothing from offset %d on, although it goes on to %d: look at the broker's log, or name letters behind that", p.Number, p.Topic, at.next, at.end)
	}
	return nil
}

// letterRecord is a record with what its headers say.
func letterRecord(rec *kgo.Record) *operate.LetterRecord {
	in := received([]*kgo.Record{rec})[0]
	out := &operate.LetterRecord{Value: rec.Value, Headers: make([]operate.LetterHeader, 0, len(rec.Headers))}
	for _, h := range rec.Headers {
		out.Headers = append(out.Headers, operate.LetterHeader{Key: h.Key, Value: h.Value})
	}
	out.LetterRef, out.At, out.Key = operate.LetterRef{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset}, rec.Timestamp.UTC(), rec.Key
	out.EventID, _ = inbox.EventID(in)
	out.Type = inbox.EventType(in)
	says := inbox.ReadLetter(in)
	out.Form, out.Error, out.Consumer, out.Attempts, out.FailedAt, out.OriginalAt = string(says.Form), says.Error, says.Consumer, says.Attempts, says.FailedAt, says.Timestamp
	if says.Topic != "" {
		out.Original = &operate.LetterRef{Topic: says.Topic, Partition: says.Partition, Offset: says.Offset}
	}
	return out
}

// ownHeaders are those that the record had before it failed.
func ownHeaders(l *operate.LetterRecord) []kgo.RecordHeader {
	in := &inbox.Record{}
	for _, h := range l.Headers {
		in.Headers = append(in.Headers, inbox.Header{Key: h.Key, Value: h.Value})
	}
	var own []kgo.RecordHeader
	for _, h := range inbox.OwnHeaders(in) {
		own = append(own, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return own
}
