package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/operate"
)

func lettersOf(t *testing.T, brokers []string) *Letters {
	t.Helper()
	l, err := NewLetters(Config{Brokers: brokers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	if err := l.Open(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return l
}

// put writes records where they say.
func put(t *testing.T, brokers []string, records ...*kgo.Record) {
	t.Helper()
	client := plainClient(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := client.ProduceSync(testContext(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func letterAt(topic string, partition, n int, headers ...string) *kgo.Record {
	r := &kgo.Record{Topic: topic, Partition: int32(partition), Key: fmt.Append(nil, "key ", n%5), Value: fmt.Append(nil, n)}
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}

// read returns what is in a topic's ranges, as partition/offset=value.
func read(t *testing.T, l *Letters, ranges ...operate.LetterRange) (found []string) {
	t.Helper()
	err := l.Read(testContext(t), ranges, func(r *operate.LetterRecord) error {
		found = append(found, fmt.Sprintf("%d/%d=%s", r.Partition, r.Offset, r.Value))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

func TestLettersAreReadFromRangesToTheirEnds(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 3)
	for i := range 30 {
		put(t, brokers, letterAt(topic, i%2, i))
	}
	l := lettersOf(t, brokers)
	partitions, err := l.Partitions(testContext(t), topic)
	if want := []operate.LetterPartition{{Number: 0, First: 0, Next: 15}, {Number: 1, First: 0, Next: 15}, {Number: 2}}; err != nil || !slices.Equal(partitions, want) {
		t.Fatalf("%+v, %v", partitions, err)
	}
	got := read(t, l, operate.LetterRange{Topic: topic, Partition: 0, From: 12, To: 15}, operate.LetterRange{Topic: topic, Partition: 1, From: 3, To: 4}, operate.LetterRange{Topic: topic, Partition: 2})
	if want := []string{"0/12=24", "0/13=26", "0/14=28", "1/3=7"}; !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	stop := errors.New("enough")
	if err := l.Read(testContext(t), []operate.LetterRange{{Topic: topic, To: 15}}, func(*operate.LetterRecord) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a function that wants no more: %v", err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if err := l.Read(ctx, []operate.LetterRange{{Topic: topic, To: 15}}, func(*operate.LetterRecord) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// What a transaction leaves behind it has an offset and is no record; what it has taken back is none either.
func TestTheEndsOfTransactionsArePassedBy(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 1)
	client := plainClient(t, brokers, kgo.TransactionalID(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(testContext(t), letterAt(topic, 0, i)).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := client.EndTransaction(testContext(t), end); err != nil {
			t.Fatal(err)
		}
	}
	l := lettersOf(t, brokers)
	partitions, err := l.Partitions(testContext(t), topic)
	if err != nil || partitions[0].Next != 6 {
		t.Fatalf("%+v, %v", partitions, err)
	}
	if got := read(t, l, operate.LetterRange{Topic: topic, To: 6}); !slices.Equal(got, []string{"0/0=0", "0/4=2"}) {
		t.Errorf("read %v", got)
	}
}

func TestWhatIsDeletedWhileItIsReadIsPassedBy(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 2)
	for i := range 10 {
		put(t, brokers, letterAt(topic, 0, i), letterAt(topic, 1, i))
	}
	l := lettersOf(t, brokers)
	if failed, err := l.DeleteBefore(testContext(t), topic, map[int32]int64{0: 7, 1: 10}); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	got := read(t, l, operate.LetterRange{Topic: topic, Partition: 0, From: 2, To: 10}, operate.LetterRange{Topic: topic, Partition: 1, From: 2, To: 10})
	if !slices.Equal(got, []string{"0/7=7", "0/8=8", "0/9=9"}) {
		t.Errorf("read %v", got)
	}
	partitions, err := l.Partitions(testContext(t), topic)
	if err != nil || partitions[0].First != 7 || partitions[1] != (operate.LetterPartition{Number: 1, First: 10, Next: 10}) {
		t.Errorf("%+v, %v", partitions, err)
	}
	if failed, err := l.DeleteBefore(testContext(t), topic, map[int32]int64{0: 11, 1: 10}); err != nil || failed[0] == nil || failed[1] != nil {
		t.Errorf("beyond the end: %v, %v", failed, err)
	}
}

func TestTopicsThatCannotBeReadAreSaid(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	l := lettersOf(t, brokers)
	for topic, want := range map[string]operate.Code{"shop.gone": operate.CodeNotFound, "shop order": operate.CodeInvalid} {
		if _, err := l.Partitions(testContext(t), topic); operate.CodeOf(err) != want {
			t.Errorf("%q: %v", topic, err)
		}
	}
	there := makeTopic(t, brokers, 1)
	if found, err := l.Targets(testContext(t), []string{there, "shop.gone"}); err != nil || found[there] != nil || found["shop.gone"] == nil || !strings.Contains(found["shop.gone"].Error(), "create the topic") {
		t.Errorf("%v, %v", found, err)
	}
	nobody, err := NewLetters(Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	if err := nobody.Open(testContext(t)); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("without brokers: %v", err)
	}
	if _, err := NewLetters(Config{}); err == nil {
		t.Error("without a configuration there is no error")
	}
}

func TestOffsetsOfATime(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 2)
	noon := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
	for i := range 5 {
		r := letterAt(topic, 0, i)
		r.Timestamp = noon.Add(time.Duration(i) * time.Hour)
		put(t, brokers, r)
	}
	got, err := lettersOf(t, brokers).OffsetsFrom(testContext(t), topic, noon.Add(150*time.Minute))
	if err != nil || got[0] != 3 || got[1] != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err = lettersOf(t, brokers).OffsetsFrom(testContext(t), topic, noon.Add(24*time.Hour)); err != nil || got[0] != 5 {
		t.Errorf("behind the last: %v, %v", got, err)
	}
}

// all reads a partition whole.
func allOf(t *testing.T, l *Letters, topic string, partition int32) (records []*operate.LetterRecord) {
	t.Helper()
	partitions, err := l.Partitions(testContext(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	p := partitions[partition]
	err = l.Read(testContext(t), []operate.LetterRange{{Topic: topic, Partition: partition, From: p.First, To: p.Next}}, func(r *operate.LetterRecord) error {
		records = append(records, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// A record that failed and is sent back is the record that it was, whoever has written the letter.
func TestARecordThatIsSentBackIsWhatItWas(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic, dlt := makeTopic(t, brokers, 4), makeTopic(t, brokers, 1)
	own := []kgo.RecordHeader{{Key: "x-event-id", Value: []byte("e-1")}, {Key: "twice", Value: []byte("a")}, {Key: "twice"}, {Key: "empty", Value: []byte{}}, {Key: "bytes", Value: []byte{0, 255}}}
	originals := []*kgo.Record{
		{Topic: topic, Partition: 3, Value: []byte{0, 1, 255}, Headers: own},
		{Topic: topic, Partition: 2, Key: []byte{}, Headers: own},
		{Topic: topic, Partition: 1, Key: []byte{255, 0}, Value: []byte{}, Headers: own},
	}
	letters := [][]kgo.RecordHeader{
		{{Key: inbox.HeaderOriginalTopic, Value: []byte(topic)}, {Key: inbox.HeaderOriginalPartition, Value: []byte("3")}, {Key: inbox.HeaderError, Value: []byte("x")}},
		{{Key: "kafka_dlt-original-topic", Value: []byte(topic)}, {Key: "kafka_dlt-original-partition", Value: []byte{0, 0, 0, 2}}, {Key: "kafka_dlt-exception-message", Value: []byte("x")}, {Key: "retry_topic-attempts", Value: []byte{0, 0, 0, 3}}},
		{{Key: "__connect.errors.topic", Value: []byte(topic)}, {Key: "__connect.errors.partition", Value: []byte("1")}, {Key: "__connect.errors.exception.message", Value: []byte("x")}},
	}
	for i, r := range originals {
		put(t, brokers, r)
		put(t, brokers, &kgo.Record{Topic: dlt, Key: r.Key, Value: r.Value, Headers: slices.Concat(r.Headers, letters[i])})
	}
	l := lettersOf(t, brokers)
	var out []operate.Resent
	for _, r := range allOf(t, l, dlt, 0) {
		if r.Original == nil || r.Error != "x" || r.EventID != "e-1" {
			t.Fatalf("the letter is %+v", r)
		}
		out = append(out, operate.Resent{LetterRecord: r, To: r.Original.Topic, Into: r.Original.Partition})
	}
	errs, lost := l.Resend(testContext(t), out)
	if err := errors.Join(errs...); err != nil || lost != nil {
		t.Fatal(err, lost)
	}
	for _, original := range originals {
		got := allOf(t, l, topic, original.Partition)
		if len(got) != 2 {
			t.Fatalf("partition %d has %d records", original.Partition, len(got))
		}
		for _, r := range got[1:] {
			if !same(r.Key, got[0].Key) || !same(r.Value, got[0].Value) || len(r.Headers) != len(own) || r.EventID != "e-1" || r.Form != "" {
				t.Fatalf("partition %d: %+v, want %+v", original.Partition, r, got[0])
			}
			for i, h := range r.Headers {
				if h.Key != own[i].Key || !same(h.Value, own[i].Value) {
					t.Errorf("partition %d: header %d is %q=%v, want %v", original.Partition, i, h.Key, h.Value, own[i])
				}
			}
		}
	}
}

// same tells nothing and null apart.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func TestARecordGoesByItsKeyWhereThePartitionIsNotThere(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 5)
	l := lettersOf(t, brokers)
	var out []operate.Resent
	for i := range 40 {
		r := &operate.LetterRecord{Value: fmt.Append(nil, i)}
		r.Key = fmt.Append(nil, "key ", i%8)
		out = append(out, operate.Resent{LetterRecord: r, To: topic, Into: []int32{-1, 7}[i%2]})
	}
	errs, lost := l.Resend(testContext(t), out)
	if err := errors.Join(errs...); err != nil || lost != nil {
		t.Fatal(err, lost)
	}
	plan := planner()
	for n := range int32(5) {
		for _, r := range allOf(t, l, topic, n) {
			if want := plan.Partition(&kgo.Record{Key: r.Key}, 5); int(n) != want {
				t.Errorf("key %s is in partition %d, want %d", r.Key, n, want)
			}
		}
	}
}

func TestARecordThatFailsHoldsItsKeyAndNoOther(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 1, "max.message.bytes", "3000")
	l := lettersOf(t, brokers)
	var out []operate.Resent
	for i := range 6 {
		r := &operate.LetterRecord{Value: fmt.Append(nil, i)}
		if i == 2 {
			r.Value = bytes.Repeat([]byte("x"), 4000)
		}
		if i%3 != 0 {
			r.Key = fmt.Append(nil, i%3)
		}
		to := topic
		if i == 5 {
			to = "shop.gone"
		}
		out = append(out, operate.Resent{LetterRecord: r, To: to, Into: 0})
	}
	out = append(out, operate.Resent{LetterRecord: &operate.LetterRecord{DeadLetter: operate.DeadLetter{Key: []byte("2")}, Value: []byte("6")}, To: topic})
	errs, lost := l.Resend(testContext(t), out)
	var texts []string
	for _, err := range errs {
		texts = append(texts, short(err))
	}
	want := []string{"", "", "event MESSAGE_TOO_LARGE", "", "", "topic UNKNOWN_TOPIC_OR_PARTITION", "held HELD_BEHIND_ANOTHER"}
	if lost != nil || !slices.Equal(texts, want) {
		t.Errorf("%q, %v; want %q", texts, lost, want)
	}
	if got := len(allOf(t, l, topic, 0)); got != 4 {
		t.Errorf("%d records are there", got)
	}
}
