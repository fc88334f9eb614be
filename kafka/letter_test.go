package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/relay"
)

func letterOf(e *relay.Event, topic string) relay.Letter {
	return relay.Letter{
		Topic: topic, Event: e, Code: "TOO_BAD", Reason: "it is bad", Attempts: 3,
		At: time.Date(2024, 5, 6, 7, 8, 9, 10_000_000, time.FixedZone("", 7200)),
	}
}

// post sends a letter and returns its outcome.
func post(t *testing.T, p *Publisher, l relay.Letter) error {
	t.Helper()
	_, err := placed(t, p, l)
	return err
}

// placed also returns where the letter is.
func placed(t *testing.T, p *Publisher, l relay.Letter) (place relay.Place, err error) {
	t.Helper()
	out := make(chan struct{})
	p.PublishLetter(l, func(at relay.Place, problem error) {
		place, err = at, problem
		close(out)
	})
	select {
	case <-out:
	case <-testContext(t).Done():
		t.Fatal("the letter has no outcome")
	}
	return place, err
}

func TestALetterSaysWhereItIs(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	dead := makeTopic(t, brokers, 3)
	p := opened(t, Config{Brokers: brokers})
	var got []string
	for id := range 6 {
		place, err := placed(t, p, letterOf(event(id, "orders", fmt.Sprint("key ", id%2)), dead))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, place.String())
	}
	var want []string
	for _, r := range consumed(t, brokers, dead) {
		want = append(want, fmt.Sprintf("%s, partition %d, offset %d", r.Topic, r.Partition, r.Offset))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("letters are at %q, want %q", got, want)
	}
}

// An operator raises a dead-letter topic's limit and lets the key go on at once.
func TestALettersTopicIsLookedAtByCheckTopics(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	dead := makeTopic(t, brokers, 1, "max.message.bytes", "2000")
	p := opened(t, Config{Brokers: brokers, now: newClock().now})
	large := letterOf(sized(t, 1, "orders", "k", 3000), dead)
	if err := post(t, p, large); relay.ClassOf(err) != relay.ClassEvent {
		t.Fatalf("before: %v, want class event", err)
	}
	alterTopic(t, brokers, dead, "max.message.bytes", "4000")
	if _, err := p.CheckTopics(t.Context(), []string{dead}); err != nil {
		t.Fatal(err)
	}
	if err := post(t, p, large); err != nil {
		t.Errorf("after: %v", err)
	}
}

func headersOf(r *kgo.Record) (all []string) {
	for _, h := range r.Headers {
		all = append(all, h.Key+"="+string(h.Value))
	}
	return all
}

func TestALetterIsTheRecordWithWhyItIsOne(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	dead := makeTopic(t, brokers, 3)
	p := opened(t, Config{Brokers: brokers})
	e := event(1, "orders.of.old", "key 1")
	e.Headers = []byte(`{"tenant": "acme", "trace": null}`)
	if err := post(t, p, letterOf(e, dead)); err != nil {
		t.Fatal(err)
	}
	got := consumed(t, brokers, dead)
	if len(got) != 1 {
		t.Fatalf("%d records, want 1", len(got))
	}
	want := rendered(e).rec
	if string(got[0].Key) != string(want.Key) || string(got[0].Value) != string(want.Value) {
		t.Errorf("key %q, value %q; want those of the event: %q, %q", got[0].Key, got[0].Value, want.Key, want.Value)
	}
	if e.Topic != "orders.of.old" {
		t.Errorf("the event was changed: its topic is %s", e.Topic)
	}
	wantHeaders := append(headersOf(&want), "x-outbox-error-code=TOO_BAD", "x-outbox-error-reason=it is bad", "x-outbox-error-topic=orders.of.old",
		"x-outbox-error-attempts=3", "x-outbox-error-at=2024-05-06T05:08:09.01Z")
	if a, b := strings.Join(headersOf(got[0]), "\n"), strings.Join(wantHeaders, "\n"); a != b {
		t.Errorf("headers:\n%s\nwant:\n%s", a, b)
	}
}

func TestALetterOfWhatCannotBeARecordIsWhatCan(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	dead := makeTopic(t, brokers, 1)
	p := opened(t, Config{Brokers: brokers})
	bad := event(1, "orders", "k")
	bad.Headers = []byte(`[1, 2]`)
	empty := event(2, "orders", "k")
	empty.Payload, empty.Headers = nil, []byte(`{"a": "b"}`)
	nameless := event(3, "orders", "k")
	nameless.EventID, nameless.Headers = uuid.Nil, []byte(`{"a": "b"}`)
	for _, e := range []*relay.Event{bad, empty, nameless} {
		if err := post(t, p, letterOf(e, dead)); err != nil {
			t.Fatal(err)
		}
	}
	got := consumed(t, brokers, dead)
	if len(got) != 3 {
		t.Fatalf("%d records, want 3", len(got))
	}
	if h := headersOf(got[0]); h[2] != `x-outbox-error-headers=[1, 2]` || h[3] != "x-outbox-error-code=TOO_BAD" || string(got[0].Value) != string(rendered(bad).rec.Value) {
		t.Errorf("letter of bad headers: %v, value %q", h, got[0].Value)
	}
	if h := headersOf(got[1]); h[2] != "a=b" || got[1].Value != nil {
		t.Errorf("letter without a payload: %v, value %q", h, got[1].Value)
	}
	if h := headersOf(got[2]); h[2] != "a=b" || string(got[2].Value) != string(rendered(nameless).rec.Value) {
		t.Errorf("letter without an id: %v, value %q", h, got[2].Value)
	}
}

func TestALetterThatItsTopicDoesNotTakeSaysWhy(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	small := makeTopic(t, brokers, 1, "max.message.bytes", "2000")
	p := opened(t, Config{Brokers: brokers})
	for _, c := range []struct {
		letter relay.Letter
		class  relay.Class
		code   string
	}{
		{letterOf(event(1, "orders", "k"), "there-is-no-such-topic"), relay.ClassTopic, kerr.UnknownTopicOrPartition.Message},
		{letterOf(event(2, "orders", "k"), strings.Repeat("x", 250)), relay.ClassEvent, codeTopic},
		{letterOf(sized(t, 3, "orders", "k", 1990), small), relay.ClassEvent, kerr.MessageTooLarge.Message},
	} {
		var e *relay.PublishError
		if err := post(t, p, c.letter); !errors.As(err, &e) || e.Class != c.class || e.Code != c.code {
			t.Errorf("letter to %.30s: %v, want class %s, code %s", c.letter.Topic, err, c.class, c.code)
		}
	}
	p.Destroy()
	if err := post(t, p, letterOf(event(4, "orders", "k"), small)); relay.ClassOf(err) != relay.ClassUnknown {
		t.Errorf("letter without a client: %v, want class unknown", err)
	}
}

func TestAPanicIsTheEventsThatBringsItToLight(t *testing.T) {
	t.Parallel()
	before, it, after := rendered(event(1, "t", "k")), &item{event: event(2, "t", "k")}, rendered(event(3, "t", "k"))
	buf, headers := it.guarded(func(*item, []byte, []kgo.RecordHeader) ([]byte, []kgo.RecordHeader) { panic("secret") }, []byte("abc"), nil)
	if it.broken == nil || it.broken.Class != relay.ClassEvent || it.broken.Code != codePanic || strings.Contains(it.broken.Error(), "secret") {
		t.Errorf("broken: %v", it.broken)
	}
	if string(buf) != "abc" || headers != nil || before.broken != nil || after.broken != nil {
		t.Errorf("buffer %q, headers %v: the events beside it have changed", buf, headers)
	}
}

func TestOnlyACorruptedBatchMayPass(t *testing.T) {
	t.Parallel()
	it := rendered(event(1, "t", "k"))
	it.part = &partition{}
	for err := range rulings {
		if got, want := eventError(it, err).Passing, err == kerr.CorruptMessage; got != want {
			t.Errorf("%s: passing %v, want %v", err.Message, got, want)
		}
	}
}
