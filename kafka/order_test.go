package kafka

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/relay"
)

// A failure that the client has decided while records were being buffered is known only when its promise has run, however late.
func TestEveryPromiseOfTheMeantimeHasRunBeforeRequestsLeaveAgain(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 1)
	var p *Publisher
	var ran atomic.Bool
	p = opened(t, Config{Brokers: brokers, produced: func(e *relay.Event) {
		if e.ID != 2 {
			return
		}
		p.session().producers[0].client.Produce(t.Context(), &kgo.Record{}, func(*kgo.Record, error) {
			for range 10_000 {
				runtime.Gosched()
			}
			ran.Store(true)
		})
	}})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(0, topic, "a")}, o.done)
	o.wait(1)
	p.Publish([]*relay.Event{event(1, topic, "a"), event(2, topic, "a")}, o.done)
	if !ran.Load() {
		t.Error("requests may leave although a promise has not run")
	}
	o.want(map[int64]string{0: "", 1: "", 2: ""})
}

func TestNewEventsWaitWhileTheirPartitionIsTakenApart(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1)
	poison := poisonous(c, topic, 0, kerr.InvalidRecord)
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(0, topic, "warm")}, o.done)
	o.wait(1)

	again, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		if poison.Hits() > 0 {
			once.Do(func() { close(again) })
			<-release
		}
		return nil, nil, false
	})
	p.Publish([]*relay.Event{event(1, topic, "a"), poisoned(2, topic, "b"), event(3, topic, "c")}, o.done)
	<-again
	p.Publish([]*relay.Event{event(4, topic, "d")}, o.done)
	s := p.session()
	s.mu.Lock()
	part := &s.topics[topic].parts[0]
	if !part.gated || len(part.waiting) != 1 {
		t.Errorf("partition held back: %t, with %d events waiting; want true and 1", part.gated, len(part.waiting))
	}
	s.mu.Unlock()
	close(release)
	o.want(map[int64]string{0: "", 1: "", 2: "event INVALID_RECORD", 3: "", 4: ""})
}

// The client loads a topic's partitions with its first record. What it took meanwhile it would buffer in its own time, with a rejection in
// between perhaps.
func TestTheFirstRecordOfATopicGoesAlone(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1)
	var taken atomic.Int64
	p := opened(t, Config{Brokers: c.ListenAddrs(), produced: func(*relay.Event) { taken.Add(1) }})
	arrived, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		once.Do(func() { close(arrived) })
		<-release
		return nil, nil, false
	})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(0, topic, "a"), event(1, topic, "b"), event(2, topic, "a")}, o.done)
	<-arrived
	p.Publish([]*relay.Event{event(3, topic, "c")}, o.done)
	if n := taken.Load(); n != 1 {
		t.Errorf("the client has %d records, want 1", n)
	}
	close(release)
	o.want(map[int64]string{0: "", 1: "", 2: "", 3: ""})
}
