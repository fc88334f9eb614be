package relaytest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/relay"
)

func eachEventIsDoneOnce(t *testing.T, b *bench) {
	b.open(t)
	events := b.events(500, 50, b.topic)
	b.publisher.Publish(events, b.done)
	b.wantAllAcked(t, b.wait(t, len(events)))
	b.wantRecords(t, events)
}

func aKeyKeepsItsOrder(t *testing.T, b *bench) {
	b.open(t)
	var all []*relay.Event
	for range 20 {
		events := b.events(50, 1, b.topic)
		all = append(all, events...)
		b.publisher.Publish(events, b.done)
		b.wantAllAcked(t, b.wait(t, len(all)))
	}
	b.wantRecords(t, all)
}

func publishTakesCallsAtTheSameTime(t *testing.T, b *bench) {
	b.open(t)
	calls := [][]*relay.Event{b.events(200, 5, b.topic), b.events(200, 5, b.topic)}
	for _, e := range calls[1] {
		e.PartitionKey = "other " + e.PartitionKey
	}
	var publishing sync.WaitGroup
	for _, events := range calls {
		publishing.Go(func() { b.publisher.Publish(events, b.done) })
	}
	publishing.Wait()
	b.wantAllAcked(t, b.wait(t, 400))
	b.wantRecords(t, slices.Concat(calls...))
}

func openKeepsAHealthyClient(t *testing.T, b *bench) {
	b.open(t)
	b.open(t)
	events := b.events(10, 2, b.topic)
	b.publisher.Publish(events, b.done)
	b.wantAllAcked(t, b.wait(t, len(events)))
	b.open(t)
	b.wantRecords(t, events)
}

func destroyMakesOutstandingEventsUnknown(t *testing.T, b *bench) {
	b.open(t)
	b.kafka.Silence()
	events := b.events(20, 4, b.topic)
	b.publisher.Publish(events, b.done)
	b.publisher.Destroy()
	b.mu.Lock()
	n := len(b.answers)
	b.mu.Unlock()
	if n != len(events) {
		t.Errorf("%d of %d events are done when Destroy returns", n, len(events))
	}
	for _, a := range b.wait(t, len(events)) {
		wantClass(t, a.err, relay.ClassUnknown)
	}
	b.publisher.Destroy()
}

// nothingIsSentFromSilentFromOn has a client that nobody has destroyed, because whoever should have stood still.
func nothingIsSentFromSilentFromOn(t *testing.T, b *bench) {
	b.open(t)
	first := b.events(4, 2, b.topic)
	b.publisher.SilentFrom(time.Now().Add(time.Hour))
	b.publisher.Publish(first, b.done)
	b.wantAllAcked(t, b.wait(t, len(first)))
	b.publisher.SilentFrom(time.Now())
	late := b.events(4, 2, b.topic)
	b.publisher.Publish(late, b.done)
	for _, a := range b.wait(t, 8)[4:] {
		wantClass(t, a.err, relay.ClassUnknown)
	}
	b.publisher.SilentFrom(time.Time{})
	b.open(t)
	last := b.events(4, 2, b.topic)
	b.publisher.Publish(last, b.done)
	b.wantAllAcked(t, b.wait(t, 12)[8:])
	b.wantRecords(t, append(first, last...))
}

func publishWithoutClientIsUnknown(t *testing.T, b *bench) {
	b.publisher.Publish(b.events(3, 1, b.topic), b.done)
	b.wait(t, 3)
	b.open(t)
	b.publisher.Destroy()
	b.publisher.Publish(b.events(3, 1, b.topic), b.done)
	for _, a := range b.wait(t, 6) {
		wantClass(t, a.err, relay.ClassUnknown)
	}
}

func openAfterDestroyMakesAClientAnew(t *testing.T, b *bench) {
	b.open(t)
	b.publisher.Destroy()
	b.open(t)
	events := b.events(10, 2, b.topic)
	b.publisher.Publish(events, b.done)
	b.wantAllAcked(t, b.wait(t, len(events)))
	b.wantRecords(t, events)
}

func aMissingTopicIsOfClassTopic(t *testing.T, b *bench) {
	b.open(t)
	missing, good := b.events(3, 1, missingTopic), b.events(3, 1, b.topic)
	b.publisher.Publish(slices.Concat(missing, good), b.done)
	for _, a := range b.wait(t, 6) {
		if a.event.Topic != missingTopic {
			b.wantAllAcked(t, []answer{a})
			continue
		}
		if class := relay.ClassOf(a.err); class != relay.ClassTopic && class != relay.ClassHeld {
			t.Errorf("event %d of the missing topic: %v, want class topic or held", a.event.ID, a.err)
		}
	}
	b.wantRecords(t, good)
}

const missingTopic = "missing-topic"

func checkTopicsTellsWhatIsMissing(t *testing.T, b *bench) {
	b.open(t)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	found, err := b.publisher.CheckTopics(ctx, []string{b.topic, missingTopic})
	if err != nil {
		t.Fatalf("check topics: %v", err)
	}
	if found[b.topic] != nil {
		t.Errorf("%s: %v, want nil", b.topic, found[b.topic])
	}
	wantClass(t, found[missingTopic], relay.ClassTopic)
}

func maxDelayIsPositive(t *testing.T, b *bench) {
	if d := b.publisher.MaxDelay(); d <= 0 {
		t.Errorf("MaxDelay is %s, want a positive time", d)
	}
}

// laterEventsOfAFailedKey publishes an event that no broker takes, because its payload is larger than any limit, before good ones of its key.
func laterEventsOfAFailedKey(t *testing.T, b *bench) {
	b.open(t)
	events := b.events(6, 2, b.topic)
	bad := events[2]
	bad.Payload = slices.Concat([]byte(`"`), slices.Repeat([]byte("x"), tooLarge), []byte(`"`))
	b.publisher.Publish(events, b.done)
	for _, a := range b.wait(t, len(events)) {
		switch {
		case a.event == bad:
			wantClass(t, a.err, relay.ClassEvent)
		case a.event.PartitionKey == bad.PartitionKey && a.event.ID > bad.ID:
			wantClass(t, a.err, relay.ClassHeld)
		default:
			b.wantAllAcked(t, []answer{a})
		}
	}
	b.wantRecords(t, []*relay.Event{events[0], events[1], events[3], events[5]})
}

// tooLarge is a payload's size, in bytes, above every sensible max.message.bytes of a test's topic.
const tooLarge = 12 << 20
