package relay_test

import (
	"bytes"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/relay"
)

// rejectPoison makes the broker reject every batch with poison in it, and name the poisoned records, which are in front of all others. It counts the rejections.
func (s *shop) rejectPoison() *atomic.Int64 {
	var rejected atomic.Int64
	s.cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		s.cluster.KeepControl()
		req := r.(*kmsg.ProduceRequest)
		sent := req.Topics[0].Partitions[0]
		poisoned := bytes.Count(sent.Records, []byte("poison"))
		if poisoned == 0 {
			return nil, nil, false
		}
		rejected.Add(1)
		part := kmsg.NewProduceResponseTopicPartition()
		part.Partition, part.ErrorCode = sent.Partition, kerr.InvalidRecord.Code
		for i := range poisoned {
			named := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			named.RelativeOffset = int32(i)
			part.ErrorRecords = append(part.ErrorRecords, named)
		}
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		topic.Partitions = append(topic.Partitions, part)
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	return &rejected
}

// A service has written many events of one key that the broker does not accept: they are given up many at a time, and not one for each time that the key is read again.
func TestRejectedEventsOfAKeyAreGivenUpTogether(t *testing.T) {
	t.Parallel()
	s := newShop(t, "orders")
	rejected := s.rejectPoison()
	s.cfg.Policies = []relay.Policy{{OnFailure: relay.Skip}}
	const bad = 600
	_, err := s.pool.Exec(t.Context(), `
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', 'k', 'order.placed.v1', '{"is": "poison"}', 'orders', 'k' FROM generate_series(1, $1)`, bad)
	if err != nil {
		t.Fatal(err)
	}
	good := s.insert("orders", "k")
	began := time.Now()
	s.start()
	await.Until(t, "all are given up", func() bool { return s.count(`SELECT count(*) FROM outbox.dead_event`) == bad })
	t.Logf("%d events given up in %s, after %d rejections", bad, time.Since(began), rejected.Load())
	s.untilPublished("orders")
	if got, want := s.records("orders", 1), names(good); !slices.Equal(got, want) {
		t.Errorf("records %v, want %v", got, want)
	}
	if n := rejected.Load(); n > bad/10 {
		t.Errorf("%d rejections for %d events: they are given up one by one", n, bad)
	}
}
