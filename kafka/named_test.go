package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// validating makes the broker reject every batch that holds poisoned records, and name them as Kafka does. It returns how many produces were rejected.
func validating(t *testing.T, c *kfake.Cluster) *atomic.Int64 {
	t.Helper()
	var rejected atomic.Int64
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.ProduceRequest)
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		any := false
		for _, rt := range req.Topics {
			at := kmsg.NewProduceResponseTopic()
			at.Topic, at.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				ap := kmsg.NewProduceResponseTopicPartition()
				ap.Partition = rp.Partition
				records, err := recordsIn(rp.Records)
				if err != nil {
					t.Error(err)
				}
				for i, rec := range records {
					if bytes.Contains(rec.Value, []byte("poison")) {
						named := kmsg.NewProduceResponseTopicPartitionErrorRecord()
						named.RelativeOffset, named.ErrorMessage = int32(i), kmsg.StringPtr("the schema does not know it")
						ap.ErrorRecords = append(ap.ErrorRecords, named)
					}
				}
				if len(ap.ErrorRecords) > 0 {
					any, ap.ErrorCode = true, kerr.InvalidRecord.Code
				}
				at.Partitions = append(at.Partitions, ap)
			}
			resp.Topics = append(resp.Topics, at)
		}
		if !any {
			return nil, nil, false
		}
		rejected.Add(1)
		return resp, nil, true
	})
	return &rejected
}

// A broker that names what it rejects spares the halves, and of a key all that is named is known at once; the others of the batch are charged with nothing.
func TestWhatTheBrokerNamesIsRefusedTogether(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"none", "gzip", "zstd"} {
		t.Run(compression, func(t *testing.T) {
			t.Parallel()
			c := fake(t)
			topic := makeTopic(t, c.ListenAddrs(), 1)
			rejected := validating(t, c)
			p := opened(t, Config{Brokers: c.ListenAddrs(), Compression: compression})
			warm := newOutcomes(t)
			p.Publish([]*relay.Event{poisoned(1000, topic, "warm")}, warm.done)
			warm.wait(1)
			o := newOutcomes(t)
			var events []*relay.Event
			want := map[int64]string{}
			var behind []string
			for id := range 200 {
				e := event(id, topic, fmt.Sprint("good ", id%10))
				want[int64(id)] = ""
				if id%2 == 1 {
					e = poisoned(id, topic, "bad")
					want[int64(id)] = "held " + codeNeighbour
					behind = append(behind, fmt.Sprint(id, " event INVALID_RECORD"))
				}
				events = append(events, e)
			}
			want[1] = "event INVALID_RECORD"
			before := rejected.Load()
			p.Publish(events, o.done)
			o.want(want)
			errs := o.wait(len(events))
			// The client may begin a second batch while it takes the events; what is named is of the first.
			var more *relay.BehindError
			if !errors.As(errs[1], &more) {
				t.Fatalf("nothing is known to be refused behind it: %v", errs[1])
			}
			wantBehind(t, errs[1], behind[1:1+min(len(more.Behind), len(behind)-1)]...)
			if _, reason := relay.ReasonOf(errs[1]); !strings.Contains(reason, "the schema does not know it") {
				t.Errorf("the reason is %q, without the broker's", reason)
			}
			if n := rejected.Load() - before; n > 3 {
				t.Errorf("the broker has rejected %d batches; it has named all with the first ones", n)
			}
			for key, ids := range idsByKey(t, consumed(t, c.ListenAddrs(), topic)) {
				if !slices.IsSorted(ids) {
					t.Errorf("key %s: %v", key, ids)
				}
			}
		})
	}
}

// What follows an event of its key that is in order is not sent before what was named in front of it is decided.
func TestNothingOvertakesWhatTheBrokerHasNamed(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1)
	validating(t, c)
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	warm := newOutcomes(t)
	p.Publish([]*relay.Event{poisoned(1000, topic, "warm")}, warm.done)
	warm.wait(1)
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(0, topic, "a"), poisoned(1, topic, "a"), event(2, topic, "a"), poisoned(3, topic, "a"), event(4, topic, "b")}, o.done)
	o.want(map[int64]string{0: "", 1: "event INVALID_RECORD", 2: "held " + codeNeighbour, 3: "held " + codeNeighbour, 4: ""})
	wantBehind(t, o.wait(5)[1], "3 event INVALID_RECORD")
}

// An answer that cannot be read, or that names what was not sent, names nobody.
func TestAnAnswerThatMakesNoSenseNamesNobody(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1)
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.ProduceRequest)
		if !bytes.Contains(req.Topics[0].Partitions[0].Records, []byte("poison")) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		at := kmsg.NewProduceResponseTopic()
		at.Topic, at.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		ap := kmsg.NewProduceResponseTopicPartition()
		ap.ErrorCode = kerr.InvalidRecord.Code
		for _, offset := range []int32{-1, 1 << 20} {
			named := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			named.RelativeOffset = offset
			ap.ErrorRecords = append(ap.ErrorRecords, named)
		}
		at.Partitions = append(at.Partitions, ap)
		resp.Topics = append(resp.Topics, at)
		return resp, nil, true
	})
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{poisoned(0, topic, "a"), event(1, topic, "b"), poisoned(2, topic, "c"), event(3, topic, "d")}, o.done)
	o.want(map[int64]string{0: "event INVALID_RECORD", 1: "", 2: "event INVALID_RECORD", 3: ""})
}

// A record is blamed by a name that is its own: letters need have no event id, and an event and its copy have the same.
func TestANameThatIsNotOneRecordsOwnBlamesNobody(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1)
	validating(t, c)
	t.Run("letters without an event id", func(t *testing.T) {
		l := lettersOf(t, c.ListenAddrs())
		var out []operate.Resent
		want := make([]string, 12)
		for i := range want {
			r := &operate.LetterRecord{DeadLetter: operate.DeadLetter{Key: fmt.Append(nil, i)}, Value: []byte("{}")}
			if i == 0 || i == 11 {
				r.Value, want[i] = []byte("poison"), "event INVALID_RECORD"
			}
			out = append(out, operate.Resent{LetterRecord: r, To: topic, Into: 0})
		}
		// The first rejection has names looked for.
		for _, some := range [][2]int{{0, 1}, {1, 12}} {
			errs, lost := l.Resend(testContext(t), out[some[0]:some[1]])
			if lost != nil {
				t.Fatal(lost)
			}
			for i, err := range errs {
				if got := short(err); got != want[some[0]+i] {
					t.Errorf("letter %d: %q, want %q", some[0]+i, got, want[some[0]+i])
				}
			}
		}
	})
	t.Run("two of one event id", func(t *testing.T) {
		p := opened(t, Config{Brokers: c.ListenAddrs()})
		warm := newOutcomes(t)
		p.Publish([]*relay.Event{poisoned(1000, topic, "warm")}, warm.done)
		warm.wait(1)
		events := []*relay.Event{event(0, topic, "a"), event(1, topic, "b"), event(2, topic, "c"), poisoned(3, topic, "d")}
		events[3].EventID = events[0].EventID
		o := newOutcomes(t)
		p.Publish(events, o.done)
		o.want(map[int64]string{0: "", 1: "", 2: "", 3: "event INVALID_RECORD"})
	})
}
