package kafka

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/relay"
)

// The size of a batch of one record is read from the requests themselves.
func TestTheSizeOfARecordIsThatOnTheWire(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1)
	var wire int
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		wire = len(r.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records)
		return nil, nil, false
	})
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	random := rand.New(rand.NewPCG(1, 2))
	for i, n := range []int{0, 1, 50, 63, 64, 127, 128, 8190, 8192, 16_300, 70_000} {
		e := event(i, topic, strings.Repeat("k", random.IntN(200)))
		e.Payload = []byte(`"` + strings.Repeat("p", n) + `"`)
		e.Headers = fmt.Appendf(nil, `{"a": null, "b": "", "c%s": %d}`, strings.Repeat("c", n%100), n)
		o := newOutcomes(t)
		p.Publish([]*relay.Event{e}, o.done)
		o.want(map[int64]string{int64(i): ""})
		if got := rendered(e).size + batchOverhead; got != wire {
			t.Errorf("payload of %d: size %d, on the wire %d", n, got, wire)
		}
	}
}

// Every size around the limit: what is sent is never refused by the client or the broker, and what the broker would take is sent.
func TestEverySizeAroundTheLimitIsJudgedAsTheBrokerDoes(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	const limit = 10_000
	topic := makeTopic(t, brokers, 3, "max.message.bytes", strconv.Itoa(limit))
	p := opened(t, Config{Brokers: brokers})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(0, topic, "first")}, o.done)
	o.wait(1)

	want := map[int64]string{0: ""}
	var events []*relay.Event
	for size := limit - 200; size <= limit+200; size++ {
		want[int64(size)] = ""
		if size > limit {
			want[int64(size)] = "event MESSAGE_TOO_LARGE"
		}
		events = append(events, sized(t, size, topic, strconv.Itoa(size), size))
	}
	p.Publish(events, o.done)
	o.want(want)
	if got := len(consumed(t, brokers, topic)); got != 202 {
		t.Errorf("%d records in the topic, want 202", got)
	}
	err := o.wait(1)[limit+1]
	if err == nil || !strings.Contains(err.Error(), "10001") || !strings.Contains(err.Error(), "10000") || !strings.Contains(err.Error(), topic) {
		t.Errorf("the error does not name both sizes and the topic: %v", err)
	}
}

// Compression does not enter the limit: it counts uncompressed bytes, as the documentation of Config says.
func TestTheLimitCountsUncompressedBytes(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 1, "max.message.bytes", "10000")
	p := opened(t, Config{Brokers: brokers, Compression: "zstd"})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(3, topic, "c")}, o.done)
	o.wait(1)
	p.Publish([]*relay.Event{sized(t, 1, topic, "a", 10_000), sized(t, 2, topic, "b", 10_001)}, o.done)
	o.want(map[int64]string{1: "", 2: "event MESSAGE_TOO_LARGE", 3: ""})
}

func TestBatchesOfSmallRecordsNeverExceedTheLimit(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1, "max.message.bytes", "1500")
	rejections := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1, When: func(r kmsg.Request) bool {
		return len(r.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records) > 1500
	}})
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(6000, topic, "first")}, o.done) // the client counts more until it has had an answer
	o.wait(1)
	var events []*relay.Event
	for i := range 6000 {
		e := event(i, topic, strconv.Itoa(i%10))
		e.Type = strings.Repeat("t", i*31%97) // so that batches end at every distance from the limit
		events = append(events, e)
	}
	p.Publish(events, o.done)
	for id, err := range o.wait(6001) {
		if err != nil {
			t.Fatalf("event %d: %v", id, err)
		}
	}
	if n := rejections.Hits(); n != 0 {
		t.Errorf("%d batches above the limit", n)
	}
}

func TestALimitAboveTheLargestRequestIsTheClients(t *testing.T) {
	t.Parallel()
	if got := fitOf(maxBatchBytes-clientOverhead, 1<<30); got != fits {
		t.Errorf("the largest that a request holds: %v", got)
	}
	if got := fitOf(maxBatchBytes-batchOverhead+1, 1<<30); got != fitsNot {
		t.Errorf("one byte more than a request holds: %v", got)
	}
	it := rendered(&relay.Event{Payload: []byte("1"), Topic: "t"})
	if err := tooLargeError(it, 1<<30); !strings.Contains(err.Error(), strconv.Itoa(maxBatchBytes)) {
		t.Errorf("the error does not name the client's limit: %v", err)
	}
	if largest := strings.Repeat("t", 249); maxBatchBytes > maxRequestBytes-len(largest)-len(DefaultClientID)-100 {
		t.Error("the reserve is smaller than what surrounds a batch")
	}
}

func BenchmarkRecordSize(b *testing.B) {
	r := &kgo.Record{Key: make([]byte, 36), Value: make([]byte, 350), Headers: []kgo.RecordHeader{{Key: HeaderEventID, Value: make([]byte, 36)}}}
	for b.Loop() {
		recordSize(r)
	}
}

// Tables cut the text of a reason: whoever raises the limit needs both numbers.
func TestTheSizesStandAtTheBeginningOfTheReason(t *testing.T) {
	t.Parallel()
	it := rendered(&relay.Event{Payload: []byte("1"), Topic: strings.Repeat("t", 249)})
	it.size = 1_000_000_000
	err := tooLargeError(it, 10_000_000)
	if text := (err.Code + ": " + err.Err.Error())[:100]; !strings.Contains(text, "1000000061 ") || !strings.Contains(text, "10000000 ") {
		t.Errorf("the first hundred bytes are %q", text)
	}
}
