package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/relay"
)

func TestAMissingTopicFailsAloneAndFlowsOnceItIsMade(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	good, missing := makeTopic(t, brokers, 3), "test-service.missing.one"
	p := opened(t, Config{Brokers: brokers})
	o := newOutcomes(t)
	want := map[int64]string{}
	var events []*relay.Event
	for id := range 200 {
		topic, code := good, ""
		if id%2 == 0 {
			topic, code = missing, "topic UNKNOWN_TOPIC_OR_PARTITION"
		}
		want[int64(id)] = code
		events = append(events, event(id, topic, fmt.Sprint(id)))
	}
	p.Publish(events, o.done)
	o.want(want)
	if err := o.wait(1)[0]; !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), "create the topic") {
		t.Errorf("the error names no topic or no remedy: %v", err)
	}

	if got := checked(t, p, missing); got != "topic UNKNOWN_TOPIC_OR_PARTITION" {
		t.Errorf("checked before it is made: %q", got)
	}
	remakeTopic(t, brokers, missing, 3)
	t.Cleanup(func() { deleteTopic(t, brokers, missing) })
	if got := checked(t, p, missing); got != "" {
		t.Errorf("checked after it was made: %q", got)
	}
	o = newOutcomes(t)
	p.Publish([]*relay.Event{event(0, missing, "0"), event(2, missing, "2")}, o.done)
	o.want(map[int64]string{0: "", 2: ""})
}

// The answer for very many topics does not come in time, and what is in order among them could not be published before.
func TestVeryManyTopicsAreLookedAtInPortions(t *testing.T) {
	t.Parallel()
	c := fake(t)
	var largest atomic.Int64
	c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		largest.Store(max(largest.Load(), int64(len(req.(*kmsg.MetadataRequest).Topics))))
		return nil, nil, false
	})
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	const many = 2*lookPortion + 1
	var events []*relay.Event
	want := map[int64]string{}
	for id := range many {
		events = append(events, event(id, fmt.Sprintf("test-service.missing.%d", id), "k"))
		want[int64(id)] = "topic UNKNOWN_TOPIC_OR_PARTITION"
	}
	o := newOutcomes(t)
	p.Publish(events, o.done)
	o.want(want)
	if n := largest.Load(); n > lookPortion {
		t.Errorf("a request asked for %d topics, want at most %d", n, lookPortion)
	}
}

func checked(t testing.TB, p *Publisher, topic string) string {
	t.Helper()
	found, err := p.CheckTopics(testContext(t), []string{topic})
	if err != nil {
		t.Fatal(err)
	}
	return short(found[topic])
}

func deleteTopic(t testing.TB, brokers []string, topic string) {
	t.Helper()
	admin := kadm.NewClient(plainClient(t, brokers))
	defer eventually(t, "the brokers to forget the topic", func() bool {
		found, err := admin.ListTopics(testContext(t), topic)
		return err == nil && found[topic].Err != nil
	})
	if _, err := admin.DeleteTopic(testContext(t), topic); err != nil {
		t.Error(err)
	}
}

// Kafka knows a topic by its id. A client that was not told keeps the old one, and fails for ever.
func TestATopicMadeAnewIsUsedAnew(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 3)
	p := opened(t, Config{Brokers: brokers})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(1, topic, "a")}, o.done)
	o.want(map[int64]string{1: ""})
	deleteTopic(t, brokers, topic)

	o = newOutcomes(t)
	p.Publish([]*relay.Event{event(2, topic, "a"), event(3, topic, "b")}, o.done)
	for id, err := range o.wait(2) {
		if relay.ClassOf(err) != relay.ClassTopic {
			t.Errorf("event %d after the topic was deleted: %v", id, err)
		}
	}

	remakeTopic(t, brokers, topic, 5)
	for try := 0; ; try++ {
		if try == 50 {
			t.Fatal("the topic fails for ever")
		}
		o = newOutcomes(t)
		p.Publish([]*relay.Event{event(2, topic, "a"), event(3, topic, "b")}, o.done)
		got := o.wait(2)
		if got[2] == nil && got[3] == nil {
			break
		}
		if relay.ClassOf(got[2]) != relay.ClassTopic {
			t.Fatalf("after it was made anew: %v", got[2])
		}
	}
	for _, r := range consumed(t, brokers, topic) {
		if want := planner().Partition(r, 5); int(r.Partition) != want {
			t.Errorf("key %s is in partition %d, want %d", r.Key, r.Partition, want)
		}
	}
}

func TestATopicDeletedAndMadeAtOnceIsUsedAnew(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 3)
	p := opened(t, Config{Brokers: brokers})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(1, topic, "a")}, o.done)
	o.wait(1)
	deleteTopic(t, brokers, topic)
	remakeTopic(t, brokers, topic, 3)

	o = newOutcomes(t)
	p.Publish([]*relay.Event{event(2, topic, "a")}, o.done)
	if err := o.wait(1)[2]; err != nil && relay.ClassOf(err) != relay.ClassTopic {
		t.Fatalf("the first after it: %v", err)
	}
	o = newOutcomes(t)
	p.Publish([]*relay.Event{event(2, topic, "a")}, o.done)
	o.want(map[int64]string{2: ""})
}

func TestAForbiddenTopicWaitsAndHealsOnTheSameClient(t *testing.T) {
	t.Parallel()
	c := fake(t)
	good, forbidden := makeTopic(t, c.ListenAddrs(), 2), makeTopic(t, c.ListenAddrs(), 2)
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	denied := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: forbidden, Err: kerr.TopicAuthorizationFailed, Count: -1})
	first := p.session()
	for range 3 {
		o := newOutcomes(t)
		want := map[int64]string{}
		var events []*relay.Event
		for id := range 40 {
			events = append(events, event(id, good, fmt.Sprint(id)), event(100+id, forbidden, fmt.Sprint(id)))
			want[int64(id)], want[int64(100+id)] = "", "topic TOPIC_AUTHORIZATION_FAILED"
		}
		p.Publish(events, o.done)
		o.want(want)
	}
	denied.Remove()
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(1, forbidden, "a")}, o.done)
	o.want(map[int64]string{1: ""})
	if p.session() != first {
		t.Error("the client was remade")
	}
}

func TestCheckTopicsSeesThatWritingIsForbidden(t *testing.T) {
	t.Parallel()
	may := func(topic string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: topic, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	c := fake(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.SeedTopics(1, "read-only", "writable"),
		kfake.User("PLAIN", "relay", "secret", may("read-only", kmsg.ACLOperationDescribe), may("writable", kmsg.ACLOperationWrite)))
	p := opened(t, Config{Brokers: c.ListenAddrs(), SASL: &SASL{Mechanism: "PLAIN", Username: "relay", Password: "secret", WithoutTLS: true}})
	if got := checked(t, p, "read-only"); got != "topic TOPIC_AUTHORIZATION_FAILED" {
		t.Errorf("a topic that may only be read: %q", got)
	}
	if got := checked(t, p, "writable"); got != "" {
		t.Errorf("a topic that may be written: %q", got)
	}
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(1, "read-only", "a"), event(2, "writable", "a")}, o.done)
	o.want(map[int64]string{1: "topic TOPIC_AUTHORIZATION_FAILED", 2: ""})
}

func TestMissingTopicsAreMadeWhenThatIsAskedFor(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	var log syncBuffer
	p := opened(t, Config{
		Brokers: brokers, CreateTopics: &TopicSpec{Partitions: 7, Replication: 1}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	first, second := "test-service.made.first", "test-service.made.second"
	t.Cleanup(func() { deleteTopic(t, brokers, first); deleteTopic(t, brokers, second) })
	if got := checked(t, p, first); got != "" {
		t.Errorf("checked: %q", got)
	}
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(1, first, "a"), event(2, second, "a")}, o.done)
	o.want(map[int64]string{1: "", 2: ""})
	topics, err := p.Topics(testContext(t), []string{first, second})
	if err != nil || topics[first].Partitions != 7 || topics[second].Partitions != 7 || topics[second].MaxMessageBytes != DefaultMaxMessageBytes {
		t.Errorf("topics %+v, %v", topics, err)
	}
	if !strings.Contains(log.String(), first) || !strings.Contains(log.String(), second) {
		t.Errorf("the log does not say so: %s", log.String())
	}
}

func TestAddedPartitionsAreUsedWithoutARestart(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 3)
	p := opened(t, Config{Brokers: brokers})
	o := newOutcomes(t)
	var events []*relay.Event
	for id := range 50 {
		events = append(events, event(id, topic, fmt.Sprint(id)))
	}
	p.Publish(events, o.done)
	o.wait(50)
	if _, err := kadm.NewClient(plainClient(t, brokers)).UpdatePartitions(testContext(t), 6, topic); err != nil {
		t.Fatal(err)
	}
	eventually(t, "6 partitions", func() bool {
		s := p.session()
		s.refreshTopics()
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.topics[topic] != nil && s.topics[topic].ready && len(s.topics[topic].parts) == 6
	})
	o = newOutcomes(t)
	p.Publish(events, o.done)
	o.wait(50)
	last := map[string]int32{}
	for _, r := range consumed(t, brokers, topic) {
		last[string(r.Key)] = max(last[string(r.Key)], r.Partition)
	}
	used := map[int32]bool{}
	for _, partition := range last {
		used[partition] = true
	}
	if len(used) < 5 {
		t.Errorf("partitions in use: %v, want all six", used)
	}
}

// A broker that lags behind tells of fewer partitions for a moment; the keys stay where they are.
func TestFewerPartitionsOfTheSameTopicAreNotBelieved(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 6)
	p := opened(t, Config{Brokers: brokers})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(1, topic, "a")}, o.done)
	o.wait(1)
	s := p.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	lagging := s.topics[topic].info
	lagging.Partitions = 3
	s.found(lagging)
	if got := s.topics[topic]; len(got.parts) != 6 || !got.ready {
		t.Errorf("%d partitions, ready %t; want 6 and ready", len(got.parts), got.ready)
	}
}

func TestErrorsSayWhatAndWhereButNeitherKeyNorPayload(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 1, "max.message.bytes", "1500")
	p := opened(t, Config{Brokers: brokers})
	o := newOutcomes(t)
	headers := event(3, topic, "confidential-3")
	headers.Headers = []byte(`{"confidential"`)
	p.Publish([]*relay.Event{
		sized(t, 1, topic, "confidential-1", 1600), event(2, "missing-topic", "confidential-2"), headers,
	}, o.done)
	for id, err := range o.wait(3) {
		var p *relay.PublishError
		if !errors.As(err, &p) || p.Topic == "" || p.Code == "" || !strings.Contains(err.Error(), p.Topic) {
			t.Errorf("event %d: no topic or code: %v", id, err)
		}
		if strings.Contains(err.Error(), "confidential") || strings.Contains(err.Error(), "xxx") {
			t.Errorf("event %d: key or payload in %v", id, err)
		}
	}
}

// Waiting would never end: a row with such a name can only be corrected, or given up.
func TestATopicThatCannotExistIsTheEventsFault(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 1)
	p := opened(t, Config{Brokers: brokers, CreateTopics: &TopicSpec{}})
	o := newOutcomes(t)
	events := []*relay.Event{event(1, topic, "a")}
	want := map[int64]string{1: ""}
	for i, name := range []string{"", ".", "..", "bad topic", "bad/topic", strings.Repeat("x", 250), "täglich"} {
		id := 2 + 2*i
		events = append(events, event(id, name, "k"), event(id+1, name, "k"))
		want[int64(id)], want[int64(id+1)] = "event INVALID_TOPIC", "held "+codeNeighbour
	}
	p.Publish(events, o.done)
	o.want(want)
}
