// Package relaytest checks implementations of the relay's interfaces: a package that implements one calls the check from its own tests.
package relaytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/relay"
)

// Kafka is what a check needs to see of the brokers behind a [relay.Publisher].
type Kafka interface {
	// Records returns the event ids of the topic's records with this key, in the order of the log.
	Records(ctx context.Context, topic, key string) ([]uuid.UUID, error)
	// Silence makes the brokers answer nothing until the test ends.
	Silence()
}

// timeout bounds what a check waits for; it is long, because reaching it is a failure.
const timeout = time.Minute

// Publisher checks a [relay.Publisher]. fresh returns one, not opened, on brokers on which the topic exists and missing-topic does not; messages of 12 MiB are
// too large for them.
func Publisher(t *testing.T, topic string, fresh func(t *testing.T) (relay.Publisher, Kafka)) {
	for name, check := range map[string]func(t *testing.T, b *bench){
		"EachEventIsDoneOnceAndInKafka":        eachEventIsDoneOnce,
		"AKeyKeepsItsOrder":                    aKeyKeepsItsOrder,
		"PublishTakesCallsAtTheSameTime":       publishTakesCallsAtTheSameTime,
		"OpenKeepsAHealthyClient":              openKeepsAHealthyClient,
		"DestroyMakesOutstandingEventsUnknown": destroyMakesOutstandingEventsUnknown,
		"NothingIsSentFromSilentFromOn":        nothingIsSentFromSilentFromOn,
		"PublishWithoutClientIsUnknown":        publishWithoutClientIsUnknown,
		"OpenAfterDestroyMakesAClientAnew":     openAfterDestroyMakesAClientAnew,
		"AMissingTopicIsOfClassTopic":          aMissingTopicIsOfClassTopic,
		"CheckTopicsTellsWhatIsMissing":        checkTopicsTellsWhatIsMissing,
		"MaxDelayIsPositive":                   maxDelayIsPositive,
		"LaterEventsOfAFailedKeyAreNotInKafka": laterEventsOfAFailedKey,
	} {
		t.Run(name, func(t *testing.T) {
			publisher, kafka := fresh(t)
			t.Cleanup(publisher.Destroy)
			check(t, &bench{publisher: publisher, kafka: kafka, topic: topic, changed: newChanged()})
		})
	}
}

// bench is a publisher under check and what it has answered.
type bench struct {
	publisher relay.Publisher
	kafka     Kafka
	topic     string
	nextID    int64

	mu      sync.Mutex
	answers []answer
	changed chan struct{}
	// inDone tells that an answer is being given.
	inDone, overlapped bool
}

type answer struct {
	event *relay.Event
	err   error
}

func newChanged() chan struct{} { return make(chan struct{}, 1) }

func (b *bench) open(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := b.publisher.Open(ctx); err != nil {
		t.Fatalf("open: %v", err)
	}
}

// events makes events with keys of a number.
func (b *bench) events(n, keys int, topic string) (events []*relay.Event) {
	for i := range n {
		b.nextID++
		events = append(events, &relay.Event{
			ID: b.nextID, EventID: uuid.New(), Type: "order.confirmed.v1", Topic: topic, PartitionKey: fmt.Sprint("key ", i%keys),
			Payload: []byte(fmt.Sprintf(`{"n": %d}`, i)), CreatedAt: time.Unix(1_700_000_000, 0),
		})
	}
	return events
}

func (b *bench) done(e *relay.Event, err error) {
	b.mu.Lock()
	b.overlapped = b.overlapped || b.inDone
	b.inDone = true
	b.answers = append(b.answers, answer{e, err})
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
	b.mu.Lock()
	b.inDone = false
	b.mu.Unlock()
}

// wait returns the answers when there are n of them.
func (b *bench) wait(t *testing.T, n int) []answer {
	t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		b.mu.Lock()
		answers, overlapped := slices.Clone(b.answers), b.overlapped
		b.mu.Unlock()
		switch {
		case overlapped:
			t.Fatal("done was called while it had not returned")
		case len(answers) > n:
			t.Fatalf("%d answers for %d events", len(answers), n)
		case len(answers) == n:
			return answers
		}
		select {
		case <-b.changed:
		case <-deadline.C:
			t.Fatalf("%d of %d events are done after %s", len(answers), n, timeout)
		}
	}
}

func (b *bench) wantAllAcked(t *testing.T, answers []answer) {
	t.Helper()
	seen := map[relay.Ref]bool{}
	for _, a := range answers {
		if a.err != nil {
			t.Errorf("event %d: %v", a.event.ID, a.err)
		}
		if seen[a.event.Ref()] {
			t.Errorf("event %d is done twice", a.event.ID)
		}
		seen[a.event.Ref()] = true
	}
}

// wantRecords compares the log with the events, key by key.
func (b *bench) wantRecords(t *testing.T, events []*relay.Event) {
	t.Helper()
	want := map[string][]uuid.UUID{}
	for _, e := range events {
		want[e.PartitionKey] = append(want[e.PartitionKey], e.EventID)
	}
	for key, want := range want {
		got, err := b.kafka.Records(t.Context(), b.topic, key)
		if err != nil {
			t.Fatalf("read records: %v", err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("key %q: %d records %v, want %d %v", key, len(got), got, len(want), want)
		}
	}
}

func wantClass(t *testing.T, err error, want relay.Class) {
	t.Helper()
	var p *relay.PublishError
	if !errors.As(err, &p) || p.Class != want || p.Code == "" || p.Err == nil {
		t.Errorf("got %v, want a PublishError of class %s with code and text", err, want)
	}
}
