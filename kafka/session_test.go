package kafka

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/relay"
)

// syncBuffer is a buffer that a logger may write to while a test reads.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func fault(c *kfake.Cluster, topic string, err *kerr.Error, count int) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: err, Count: count})
}

// What the broker says once and what the client answers by itself: nothing is reported, nothing is lost, no key turns.
func TestWhatHealsByItselfIsNeverReported(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut,
		kerr.KafkaStorageError, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch, kerr.ThrottlingQuotaExceeded,
		kerr.NetworkException, kerr.FencedLeaderEpoch,
	} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			c := fake(t)
			topic := makeTopic(t, c.ListenAddrs(), 1)
			p := opened(t, Config{Brokers: c.ListenAddrs()})
			o := newOutcomes(t)
			p.Publish([]*relay.Event{event(0, topic, "a")}, o.done)
			o.wait(1)
			injected := fault(c, topic, code, 1)
			want := map[int64]string{0: ""}
			for id := 1; id < 100; id += 3 {
				p.Publish([]*relay.Event{event(id, topic, fmt.Sprint(id)), event(id+1, topic, fmt.Sprint(id)), event(id+2, topic, fmt.Sprint(id))}, o.done)
				want[int64(id)], want[int64(id+1)], want[int64(id+2)] = "", "", ""
			}
			o.want(want)
			if injected.Hits() != 1 {
				t.Errorf("the fault was met %d times, want once", injected.Hits())
			}
			for key, ids := range idsByKey(t, consumed(t, c.ListenAddrs(), topic)) {
				if key != "a" && (len(ids) < 3 || ids[0]+1 != ids[1] || ids[1]+1 != ids[2]) {
					t.Errorf("key %s: %v", key, ids)
				}
			}
		})
	}
}

func TestNothingIsDoneBeforeTheReplicasHaveIt(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1)
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	o := newOutcomes(t)
	short := fault(c, topic, kerr.NotEnoughReplicas, -1)
	p.Publish([]*relay.Event{event(1, topic, "a"), event(2, topic, "b")}, o.done)
	if err := short.Wait(testContext(t), 4); err != nil {
		t.Fatal(err)
	}
	if n := o.count(); n != 0 {
		t.Errorf("%d events done without an ack", n)
	}
	short.Remove()
	o.want(map[int64]string{1: "", 2: ""})
}

// A client whose identity is in doubt is given up; the next one starts clean. The broker's error is one that nobody has planned for.
func TestAnErrorThatNobodyKnowsEndsTheClientAndTheNextOneGoesOn(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{kerr.UnknownServerError, kerr.ProducerFenced, kerr.InvalidTxnState, kerr.StaleControllerEpoch} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			c := fake(t)
			topic, other := makeTopic(t, c.ListenAddrs(), 1), makeTopic(t, c.ListenAddrs(), 1)
			p := opened(t, Config{Brokers: c.ListenAddrs()})
			fault(c, other, kerr.NotEnoughReplicas, -1)
			fault(c, topic, code, 1)
			o := newOutcomes(t)
			p.Publish([]*relay.Event{event(1, topic, "a"), event(2, other, "b")}, o.done)
			o.want(map[int64]string{1: "unknown " + code.Message, 2: "unknown " + code.Message})

			o = newOutcomes(t)
			p.Publish([]*relay.Event{event(3, topic, "a")}, o.done)
			o.want(map[int64]string{3: "unknown " + codeNotOpen})
			if err := p.Open(testContext(t)); err != nil {
				t.Fatal(err)
			}
			o = newOutcomes(t)
			p.Publish([]*relay.Event{event(1, topic, "a"), event(3, topic, "a")}, o.done)
			o.want(map[int64]string{1: "", 3: ""})
		})
	}
}

func TestAHealthyClientIsKeptAndABusyOneIsNot(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1)
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	first := p.session()
	if err := p.Open(testContext(t)); err != nil || p.session() != first {
		t.Errorf("an idle client was not kept: %v", err)
	}
	fault(c, topic, kerr.NotEnoughReplicas, -1)
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(1, topic, "a")}, o.done)
	if err := p.Open(testContext(t)); err != nil || p.session() == first {
		t.Errorf("a client with an event outstanding was kept: %v", err)
	}
	o.want(map[int64]string{1: "unknown " + codeDestroyed})
}

func TestDestroyTwiceAndBeforeOpen(t *testing.T) {
	t.Parallel()
	c := fake(t)
	p := newPublisher(t, Config{Brokers: c.ListenAddrs()})
	p.Destroy()
	if err := p.Open(testContext(t)); err != nil {
		t.Fatal(err)
	}
	p.Destroy()
	p.Destroy()
	if _, err := p.CheckTopics(testContext(t), []string{"t"}); relay.ClassOf(err) != relay.ClassOutage {
		t.Errorf("checking topics without a client: %v", err)
	}
}

func TestEveryEventIsDoneOnceWhenDestroyMeetsPublish(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 4)
	p := newPublisher(t, Config{Brokers: c.ListenAddrs()})
	o := newOutcomes(t)
	const publishers, calls, perCall = 4, 50, 20
	for round := range 3 {
		if err := p.Open(testContext(t)); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for n := range publishers {
			all.Go(func() {
				for call := range calls {
					var events []*relay.Event
					for i := range perCall {
						id := ((round*publishers+n)*calls+call)*perCall + i
						events = append(events, event(id, topic, fmt.Sprint(id)))
					}
					p.Publish(events, o.done)
				}
			})
		}
		for range 2 {
			all.Go(p.Destroy)
		}
		all.Wait()
		p.Destroy()
	}
	for id, err := range o.wait(3 * publishers * calls * perCall) {
		if class := relay.ClassOf(err); err != nil && class != relay.ClassUnknown {
			t.Errorf("event %d: %v", id, err)
		}
	}
}
