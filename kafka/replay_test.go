package kafka

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

func replayer(t *testing.T, c Config) *Replayer {
	t.Helper()
	r, err := NewReplayer(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if err := r.Open(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return r
}

func settled(n int, topic, key string) operate.Settled {
	return operate.Settled{
		ID: int64(n), EventID: uuid.New(), Type: "order.confirmed.v1", Topic: topic, PartitionKey: key,
		Payload: fmt.Appendf(nil, `{"id": %d}`, n), Headers: []byte(`{"tenant": "a"}`), CreatedAt: time.Now(),
	}
}

// A replayed record differs from the first in one header, and goes to the same partition.
func TestAReplayedRecordIsThatOfTheRelayWithAMark(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 7)
	p, o := opened(t, Config{Brokers: brokers}), newOutcomes(t)
	var again []operate.Settled
	var first []*relay.Event
	for i := 1; i <= 20; i++ {
		e := settled(i, topic, fmt.Sprint("order-", i))
		again = append(again, e)
		first = append(first, &relay.Event{ID: e.ID, EventID: e.EventID, Type: e.Type, Topic: e.Topic, PartitionKey: e.PartitionKey, Payload: e.Payload, Headers: e.Headers})
	}
	p.Publish(first, o.done)
	o.wait(len(first))
	errs, lost := replayer(t, Config{Brokers: brokers}).Republish(testContext(t), again, "17")
	for i, err := range errs {
		if err != nil {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if lost != nil || len(errs) != 20 {
		t.Fatalf("%d outcomes, %v", len(errs), lost)
	}
	byKey := map[string][]string{}
	for _, r := range consumed(t, brokers, topic) {
		text := fmt.Sprintf("%d %s", r.Partition, r.Value)
		for _, h := range r.Headers {
			text += fmt.Sprintf(" %s=%s", h.Key, h.Value)
		}
		byKey[string(r.Key)] = append(byKey[string(r.Key)], text)
	}
	for key, got := range byKey {
		if len(got) != 2 || got[1] != got[0]+" x-outbox-replay=17" {
			t.Errorf("key %s: %q", key, got)
		}
	}
	if len(byKey) != 20 {
		t.Errorf("%d keys", len(byKey))
	}
}

func TestAReplayTellsWhatFailedAndWhatItHeldBack(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 1, "max.message.bytes", "2000")
	large := settled(2, topic, "a")
	large.Payload = []byte(`"` + strings.Repeat("x", 3000) + `"`)
	events := []operate.Settled{settled(1, topic, "a"), large, settled(3, topic, "a"), settled(4, topic, "b"), settled(5, topic+".gone", "c")}
	errs, lost := replayer(t, Config{Brokers: brokers, CreateTopics: &TopicSpec{}}).Republish(testContext(t), events, "1")
	var got []string
	for _, err := range errs {
		got = append(got, short(err))
	}
	if want := []string{"", "event MESSAGE_TOO_LARGE", "held HELD_BEHIND_ANOTHER", "", "topic UNKNOWN_TOPIC_OR_PARTITION"}; lost != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("outcomes %q, %v; want %q: a topic that is gone is not made again", got, lost, want)
	}
	if text := fmt.Sprint(errs[1]); !strings.HasSuffix(text, "; 18 bytes of that are the header x-outbox-replay, which the relay's record has not") {
		t.Errorf("what is too large says nothing of the header: %s", text)
	}
}

// What a plan says is the most that any record grows by, with the longest id of a job, where the lengths before it grow too.
func TestAReplayMakesRecordsLargerByWhatItsPlanSays(t *testing.T) {
	t.Parallel()
	most := 0
	for _, headers := range []int{0, 63} {
		for size := range 20_000 {
			r := kgo.Record{Value: make([]byte, size), Headers: make([]kgo.RecordHeader, headers)}
			before := recordSize(&r)
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: HeaderReplay, Value: []byte(strconv.FormatInt(math.MaxInt64, 10))})
			most = max(most, recordSize(&r)-before)
		}
	}
	if most != operate.MaxReplayMark {
		t.Errorf("a record grows by up to %d bytes, and plans say %d", most, operate.MaxReplayMark)
	}
}

func TestAnInterruptedReplayGivesUpInTheEnd(t *testing.T) {
	t.Parallel()
	cluster := fake(t)
	topic := makeTopic(t, cluster.ListenAddrs(), 1)
	r := replayer(t, Config{Brokers: cluster.ListenAddrs()})
	r.grace = time.Millisecond
	cluster.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	errs, lost := r.Republish(ctx, []operate.Settled{settled(1, topic, "a")}, "1")
	if len(errs) != 1 || errs[0] == nil || lost == nil {
		t.Errorf("outcomes %v, %v; want an unknown one", errs, lost)
	}
	if errs, lost := r.Republish(ctx, nil, "1"); len(errs) != 0 || lost != nil {
		t.Errorf("nothing to publish gives %v, %v", errs, lost)
	}
}
