package kafka

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outbox-relay/outbox/relay"
)

// wantBehind compares the events, and why, of which the failure of an event tells that they are refused, too.
func wantBehind(t *testing.T, err error, want ...string) {
	t.Helper()
	var more *relay.BehindError
	var got []string
	if errors.As(err, &more) {
		for _, r := range more.Behind {
			got = append(got, fmt.Sprint(r.Event.ID, " ", short(r.Err)))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("refused behind it: %v, want %v", got, want)
	}
}

func TestAFailureTellsWhatElseOfItsKeyIsRefused(t *testing.T) {
	t.Parallel()
	c := fake(t)
	limit := 2000
	topic := makeTopic(t, c.ListenAddrs(), 1, "max.message.bytes", fmt.Sprint(limit))
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	o := newOutcomes(t)
	broken := event(5, topic, "a")
	broken.Headers = []byte(`[1]`)
	events := []*relay.Event{
		event(0, topic, "a"),
		sized(t, 1, topic, "a", limit+1),
		event(2, topic, "a"),
		sized(t, 3, topic, "a", limit+1),
		sized(t, 4, topic, "b", limit+1),
		broken,
		sized(t, 6, topic, "a", limit),
		event(7, topic, "b"),
		sized(t, 8, topic, "a", 2*limit),
	}
	p.Publish(events, o.done)
	o.want(map[int64]string{
		0: "", 1: "event MESSAGE_TOO_LARGE", 2: "held " + codeNeighbour, 3: "held " + codeNeighbour, 4: "event MESSAGE_TOO_LARGE",
		5: "held " + codeNeighbour, 6: "held " + codeNeighbour, 7: "held " + codeNeighbour, 8: "held " + codeNeighbour,
	})
	errs := o.wait(len(events))
	wantBehind(t, errs[1], "3 event MESSAGE_TOO_LARGE", "5 event "+codeHeaders, "8 event MESSAGE_TOO_LARGE")
	wantBehind(t, errs[4])
	if _, reason := relay.ReasonOf(errs[1]); reason == "" || len(reason) > 300 {
		t.Errorf("the reason is %q", reason)
	}
}

// The broker has rejected an event: what is known to be refused behind it is told as well, and nothing that was not tried.
func TestARejectionTellsWhatElseOfItsKeyIsRefused(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1, "max.message.bytes", "2000")
	poisonous(c, topic, 0, kerr.InvalidRecord)
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{poisoned(0, topic, "a"), poisoned(1, topic, "a"), sized(t, 2, topic, "a", 3000)}, o.done)
	errs := o.wait(3)
	if got := short(errs[0]); got != "event INVALID_RECORD" {
		t.Fatalf("the first: %s", got)
	}
	wantBehind(t, errs[0], "2 event MESSAGE_TOO_LARGE")
}

func TestAnOldLimitTellsNothingOfTheEventsBehind(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1, "max.message.bytes", "2000")
	clock := newClock()
	p := opened(t, Config{Brokers: c.ListenAddrs(), now: clock.now})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(0, topic, "a")}, o.done)
	o.wait(1)
	clock.advance(limitFresh + time.Second)
	broken := event(1, topic, "a")
	broken.Payload = nil
	p.Publish([]*relay.Event{broken, sized(t, 2, topic, "a", 3000)}, o.done)
	wantBehind(t, o.wait(3)[1])
}

// Payloads stay in memory until the relay has decided on them.
func TestWhatAFailureTellsOfOthersIsBounded(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1, "max.message.bytes", "2000")
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	o := newOutcomes(t)
	var events []*relay.Event
	for id := range 10 {
		events = append(events, sized(t, id, topic, "a", behindBytes/4))
	}
	p.Publish(events, o.done)
	var more *relay.BehindError
	if errs := o.wait(len(events)); !errors.As(errs[0], &more) || len(more.Behind) != 4 {
		t.Errorf("refused behind it: %v, want 4 events", more)
	}
}

// The broker takes less than the topic's limit says: what is no smaller than a record that it has rejected is not tried.
func TestWhatIsNoSmallerThanARejectedRecordIsRefusedWithIt(t *testing.T) {
	t.Parallel()
	c := fake(t)
	topic := makeTopic(t, c.ListenAddrs(), 1, "max.message.bytes", "5000")
	poisonous(c, topic, 0, kerr.MessageTooLarge)
	p := opened(t, Config{Brokers: c.ListenAddrs()})
	o := newOutcomes(t)
	first := poisoned(0, topic, "a")
	first.Payload = sized(t, 0, topic, "a", 3000).Payload
	first.Payload = append([]byte(`{"poison": true, "is": `), append(first.Payload, '}')...)
	p.Publish([]*relay.Event{first, event(1, topic, "a"), sized(t, 2, topic, "a", 4000), sized(t, 3, topic, "b", 4000), sized(t, 4, topic, "a", 2000)}, o.done)
	o.want(map[int64]string{0: "event MESSAGE_TOO_LARGE", 1: "held " + codeNeighbour, 2: "held " + codeNeighbour, 3: "", 4: "held " + codeNeighbour})
	wantBehind(t, o.wait(5)[0], "2 event MESSAGE_TOO_LARGE")
}
