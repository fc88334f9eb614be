package kafka

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/relay"
)

// poisonous makes the broker reject every batch that holds a poisoned record.
func poisonous(c *kfake.Cluster, topic string, partition int32, err *kerr.Error) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{partition}, Err: err, Count: -1,
		When: func(r kmsg.Request) bool {
			for _, t := range r.(*kmsg.ProduceRequest).Topics {
				for _, p := range t.Partitions {
					if p.Partition == partition && bytes.Contains(p.Records, []byte("poison")) {
						return true
					}
				}
			}
			return false
		},
	})
}

func poisoned(id int, topic, key string) *relay.Event {
	e := event(id, topic, key)
	e.Payload = fmt.Appendf(nil, `{"id": %d, "poison": true}`, id)
	return e
}

func TestARejectionIsTheFaultOfOneEventOnly(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{kerr.InvalidRecord, kerr.MessageTooLarge, kerr.CorruptMessage, kerr.RecordListTooLarge} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			c := fake(t)
			topic := makeTopic(t, c.ListenAddrs(), 1)
			poisonous(c, topic, 0, code)
			p := opened(t, Config{Brokers: c.ListenAddrs()})
			o := newOutcomes(t)

			var events []*relay.Event
			want := map[int64]string{}
			for id := range 300 {
				e := event(id, topic, fmt.Sprint(id%50))
				want[int64(id)] = ""
				switch {
				case id == 110 || id == 211:
					e = poisoned(id, topic, e.PartitionKey)
					want[int64(id)] = "event " + code.Message
				case id > 110 && id%50 == 10 || id > 211 && id%50 == 11:
					want[int64(id)] = "held " + codeNeighbour
				}
				events = append(events, e)
			}
			p.Publish(events, o.done)
			o.want(want)
			for key, ids := range idsByKey(t, consumed(t, c.ListenAddrs(), topic)) {
				if !slices.IsSorted(ids) {
					t.Errorf("key %s: %v", key, ids)
				}
			}
		})
	}
}

// Events of other keys keep coming while the partition is taken apart, each key's only when its earlier ones are done.
func TestABusyPartitionKeepsTheOrderOfEveryKeyThroughRejections(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 2)
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	for partition := range int32(2) {
		poisonous(c, topic, partition, kerr.InvalidRecord)
	}
	var reopening sync.Mutex
	reopen := func() {
		reopening.Lock()
		defer reopening.Unlock()
		if s := p.session(); s == nil || !s.alive() {
			if err := p.Open(testContext(t)); err != nil {
				t.Error(err)
			}
		}
	}
	const keys, rounds = 40, 25
	blamed := 0
	finished := make(chan error, keys)
	for k := range keys {
		var calls [][]*relay.Event
		for r := range rounds {
			call := roundOf(topic, fmt.Sprint(k), 4*(k*rounds+r))
			if r%7 == k%7 {
				call[2] = poisoned(int(call[2].ID), topic, fmt.Sprint(k))
				blamed++
			}
			calls = append(calls, call)
		}
		go func() { finished <- publishCalls(p, reopen, calls) }()
	}
	for range keys {
		if err := <-finished; err != nil {
			t.Error(err)
		}
	}
	total := 0
	for key, ids := range idsByKey(t, consumed(t, c.ListenAddrs(), topic)) {
		ids = firsts(ids)
		total += len(ids)
		if !slices.IsSorted(ids) {
			t.Errorf("key %s: %v", key, ids)
		}
	}
	if want := keys*rounds*4 - 2*blamed; total != want {
		t.Errorf("%d records, want %d: all but the poisoned and the one behind each", total, want)
	}
}

// firsts leaves out what was seen before: an event whose client was given up may come twice.
func firsts(ids []int) (out []int) {
	for _, id := range ids {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func roundOf(topic, key string, first int) (events []*relay.Event) {
	for i := range 4 {
		events = append(events, event(first+i, topic, key))
	}
	return events
}

// publishCalls publishes one call after the other, each when the one before is done, and compares the outcomes: what is poisoned is
// blamed, what is behind it is held, everything else is published. A client that was given up is replaced, as the relay does.
func publishCalls(p *Publisher, reopen func(), calls [][]*relay.Event) error {
	for _, events := range calls {
		blamed := false
		for len(events) > 0 {
			got, err := publishAndWait(p, events)
			if err != nil {
				return err
			}
			for len(events) > 0 && !strings.HasPrefix(got[events[0].ID], "unknown") {
				e, want := events[0], ""
				if blamed {
					want = "held " + codeNeighbour
				} else if bytes.Contains(e.Payload, []byte("poison")) {
					want, blamed = "event INVALID_RECORD", true
				}
				if got[e.ID] != want {
					return fmt.Errorf("event %d of key %s: %q, want %q", e.ID, e.PartitionKey, got[e.ID], want)
				}
				events = events[1:]
			}
			if len(events) > 0 {
				reopen()
			}
			if blamed {
				events = nil
			}
		}
	}
	return nil
}

func publishAndWait(p *Publisher, events []*relay.Event) (map[int64]string, error) {
	got := map[int64]string{}
	done := make(chan struct{})
	p.Publish(events, func(e *relay.Event, err error) {
		if got[e.ID] = short(err); len(got) == len(events) {
			close(done)
		}
	})
	select {
	case <-done:
		return got, nil
	case <-time.After(patience):
		return nil, fmt.Errorf("key %s: nothing is done", events[0].PartitionKey)
	}
}

// The broker rejects a batch just between two records of a key that are buffered behind it. The first fails with the batch; the second
// is not behind it any more.
func TestAFailureBetweenTwoRecordsOfAKeyDoesNotLetTheSecondOut(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1)
	poisonous(c, topic, 0, kerr.InvalidRecord)
	var p *Publisher
	release := make(chan struct{})
	var releasing sync.Once
	p = opened(t, Config{Brokers: c.ListenAddrs(), produced: func(e *relay.Event) {
		if p.session().net.gate.TryLock() {
			t.Error("requests may leave while records are being buffered")
			p.session().net.gate.Unlock()
		}
		if e.ID != 2 {
			return
		}
		releasing.Do(func() { close(release) })
		eventually(t, "the rejection and its companion", func() bool {
			q := &p.session().queue
			q.mu.Lock()
			defer q.mu.Unlock()
			return len(q.results) == 2
		})
	}})
	warm := newOutcomes(t)
	p.Publish([]*relay.Event{event(0, topic, "warm")}, warm.done)
	warm.wait(1)

	arrived := make(chan struct{})
	var once sync.Once
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		once.Do(func() { close(arrived) })
		<-release
		return nil, nil, false
	})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{poisoned(1, topic, "x")}, o.done)
	<-arrived
	p.Publish([]*relay.Event{event(2, topic, "a"), event(3, topic, "a")}, o.done)
	o.want(map[int64]string{1: "unknown " + codeDestroyed, 2: "unknown " + codeDestroyed, 3: "unknown " + codeDestroyed})
	if err := p.Open(testContext(t)); err != nil {
		t.Fatal(err)
	}
	o = newOutcomes(t)
	p.Publish([]*relay.Event{event(4, topic, "a"), event(5, topic, "a")}, o.done)
	o.want(map[int64]string{4: "", 5: ""})
	if got := fmt.Sprint(idsByKey(t, consumed(t, c.ListenAddrs(), topic))["a"]); got != "[4 5]" {
		t.Errorf("key a: %s, want [4 5]", got)
	}
}

func TestAnEventThatIsTooLargeHoldsItsKeyAndNothingElse(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 1, "max.message.bytes", "2000")
	p := opened(t, Config{Brokers: brokers})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{
		sized(t, 1, topic, "a", 2001), event(2, topic, "a"), event(3, topic, "a"), event(4, topic, "b"), event(5, topic, "b"),
	}, o.done)
	o.want(map[int64]string{
		1: "event MESSAGE_TOO_LARGE", 2: "held " + codeNeighbour, 3: "held " + codeNeighbour, 4: "", 5: "",
	})
	o = newOutcomes(t)
	p.Publish([]*relay.Event{event(2, topic, "a"), event(3, topic, "a")}, o.done) // the relay has skipped 1
	o.want(map[int64]string{2: "", 3: ""})
}

func TestBadHeadersHoldTheirKey(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 1)
	p := opened(t, Config{Brokers: brokers})
	bad := event(1, topic, "a")
	bad.Headers = []byte(`[]`)
	o := newOutcomes(t)
	p.Publish([]*relay.Event{bad, event(2, topic, "a"), event(3, topic, "b")}, o.done)
	o.want(map[int64]string{1: "event INVALID_HEADERS", 2: "held " + codeNeighbour, 3: ""})
}

func TestAFailureBetweenTwoRecordsOfAKeyIsSeen(t *testing.T) {
	t.Parallel()
	items := make([]item, 4)
	var all []*item
	for i, key := range []string{"a", "b", "a", "b"} {
		items[i].event = event(i, "t", key)
		all = append(all, &items[i])
	}
	for _, test := range []struct {
		failed []int
		want   bool
	}{
		{nil, false}, {[]int{0, 2}, false}, {[]int{2}, false}, {[]int{0, 1, 2, 3}, false}, {[]int{0}, true}, {[]int{0, 1, 2}, true},
	} {
		failed := map[*item]struct{}{}
		for _, i := range test.failed {
			failed[&items[i]] = struct{}{}
		}
		if got := splits(all, failed); got != test.want {
			t.Errorf("failed %v: splits %t, want %t", test.failed, got, test.want)
		}
	}
}
