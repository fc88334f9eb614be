package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/relay"
)

// The limit was lowered behind the client's back: batches of small records are too large as well.
func TestALoweredLimitIsLearntAndNoSmallEventSuffers(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 1)
	p := opened(t, Config{Brokers: brokers})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(1000, topic, "first")}, o.done)
	o.wait(1)
	alterTopic(t, brokers, topic, "max.message.bytes", "3000")

	o = newOutcomes(t)
	want := map[int64]string{}
	var events []*relay.Event
	for id := range 200 {
		want[int64(id)] = ""
		e := event(id, topic, fmt.Sprint(id))
		if id == 60 {
			e = sized(t, id, topic, fmt.Sprint(id), 3001)
			want[60] = "event MESSAGE_TOO_LARGE"
		}
		events = append(events, e)
	}
	p.Publish(events, o.done)
	o.want(want)
}

func TestARaisedLimitIsLearntBeforeAnEventIsRefused(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 1, "max.message.bytes", "2000")
	clock := newClock()
	p := opened(t, Config{Brokers: brokers, now: clock.now})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(1, topic, "a")}, o.done)
	o.wait(1)
	alterTopic(t, brokers, topic, "max.message.bytes", "4000")
	clock.advance(limitFresh + time.Second)

	p.Publish([]*relay.Event{event(2, topic, "b"), sized(t, 3, topic, "a", 3900), event(4, topic, "a")}, o.done)
	o.want(map[int64]string{1: "", 2: "", 3: "", 4: ""})
	if got := fmt.Sprint(idsByKey(t, consumed(t, brokers, topic))["a"]); got != "[1 3 4]" {
		t.Errorf("key a: %s, want [1 3 4]", got)
	}
}

// An operator raises the limit and lets the key go on at once: the last look, a moment ago, must not count.
func TestARaisedLimitIsLearntByCheckTopics(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 1, "max.message.bytes", "2000")
	clock := newClock()
	p := opened(t, Config{Brokers: brokers, now: clock.now})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{sized(t, 1, topic, "a", 3900)}, o.done)
	o.want(map[int64]string{1: "event MESSAGE_TOO_LARGE"})
	alterTopic(t, brokers, topic, "max.message.bytes", "4000")
	if _, err := p.CheckTopics(t.Context(), []string{topic}); err != nil {
		t.Fatal(err)
	}
	o = newOutcomes(t)
	p.Publish([]*relay.Event{sized(t, 1, topic, "a", 3900)}, o.done)
	o.want(map[int64]string{1: ""})
}

func TestATopicWhoseLimitCannotBeReadIsPublishedTo(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1, "max.message.bytes", "3000")
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	o := newOutcomes(t)
	want := map[int64]string{100: "event MESSAGE_TOO_LARGE", 101: "event MESSAGE_TOO_LARGE"}
	events := []*relay.Event{sized(t, 100, topic, "large", 3001), sized(t, 101, topic, "larger", DefaultMaxMessageBytes+1)}
	for id := range 100 {
		want[int64(id)] = ""
		events = append(events, event(id, topic, fmt.Sprint(id)))
	}
	p.Publish(events, o.done)
	o.want(want)
}

// What a client forgets, brokers remember: a batch that looks like one of before would be acknowledged and not written.
func TestNothingIsLostWhenATopicHasChanged(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic, other := makeTopic(t, brokers, 1), makeTopic(t, brokers, 1)
	p := opened(t, Config{Brokers: brokers})
	for id := range 6 {
		o := newOutcomes(t)
		p.Publish([]*relay.Event{event(id, topic, "a"), event(id+10, other, "a")}, o.done)
		o.want(map[int64]string{int64(id): "", int64(id + 10): ""})
		alterTopic(t, brokers, topic, "max.message.bytes", fmt.Sprint(5000+id))
		if _, err := p.CheckTopics(t.Context(), []string{topic}); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(idsByKey(t, consumed(t, brokers, topic))["a"]); got != "[0 1 2 3 4 5]" {
		t.Errorf("the topic that changes: %s", got)
	}
	if got := fmt.Sprint(idsByKey(t, consumed(t, brokers, other))["a"]); got != "[10 11 12 13 14 15]" {
		t.Errorf("the other: %s", got)
	}
	s := p.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.producers) > 2 {
		t.Errorf("%d clients are open for two topics, of which one has changed", len(s.producers))
	}
}
