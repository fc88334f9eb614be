package tracing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/outbox-relay/outbox/relay"
	"github.com/outbox-relay/outbox/tracing"
)

// telling is a publisher that tells outcomes when it is asked to.
type telling struct {
	relay.Publisher
	done   func(*relay.Event, error)
	events []*relay.Event
}

func (p *telling) Publish(events []*relay.Event, done func(*relay.Event, error)) {
	p.events, p.done = events, done
}

// lettering is one that can send dead letters too.
type lettering struct{ telling }

func (*lettering) PublishLetter(relay.Letter, func(relay.Place, error)) {}

func noSecrets(t *testing.T, spans *tracetest.InMemoryExporter) {
	t.Helper()
	for _, s := range spans.GetSpans() {
		if all := fmt.Sprintf("%+v", s); strings.Contains(all, "secret") {
			t.Errorf("the span has what is nobody's business: %s", all)
		}
	}
}

func parentOf(n int) string { return fmt.Sprintf("00-%032x-%016x-01", n+1, n+1) }

func traced(n int) *relay.Event {
	return &relay.Event{
		EventID: uuid.New(), Type: placed, Topic: orders, PartitionKey: "secret-key", Payload: []byte(`"secret-payload"`),
		Headers: fmt.Appendf(nil, `{"tenant": "secret-header", "tracestate": "a=b", "traceparent": %q}`, parentOf(n)),
	}
}

func TestABatchIsLinkedToTheSpansOfItsEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ events, inTransaction, links int }{
		"each its own":           {5, 1, 5},
		"some of a transaction":  {6, 3, 2},
		"no more than the limit": {3 * tracing.MaxLinks, 1, tracing.MaxLinks},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider, spans := recorder(t)
			inner := &telling{}
			var events []*relay.Event
			for i := range c.events {
				events = append(events, traced(i/c.inTransaction))
			}
			tracing.Publisher(inner, provider).Publish(events, func(*relay.Event, error) {})
			for i, e := range events {
				if n := len(spans.GetSpans()); n != 0 {
					t.Fatalf("%d spans ended with %d of %d outcomes", n, i, len(events))
				}
				inner.done(e, nil)
			}
			got := named(spans, "publish "+orders)
			if len(got) != 1 || len(got[0].Links) != c.links || got[0].DroppedLinks != 0 || got[0].Parent.IsValid() {
				t.Fatalf("spans %+v, want one root with %d links", got, c.links)
			}
			for i, l := range got[0].Links {
				if want := parentOf(i)[3:35]; l.SpanContext.TraceID().String() != want || l.SpanContext.TraceState().Len() != 0 {
					t.Errorf("link %d is to %+v, want trace %s", i, l.SpanContext, want)
				}
			}
			noSecrets(t, spans)
		})
	}
}

func TestHeadersWithoutATraceThatCanBeReadMakeNoLink(t *testing.T) {
	t.Parallel()
	good := parentOf(1)
	for _, headers := range []string{
		"", "null", "[]", `"traceparent"`, `{"traceparent": `, `{"traceparent": null}`, `{"traceparent": 7}`, `{"traceparent": {"a": 1}}`, `{"traceparent": ""}`,
		`{"traceparent": "rubbish"}`, `{"traceparent": "` + good[:54] + `"}`, `{"traceparent": "` + strings.ToUpper(good) + `g"}`,
		`{"traceparent": "00-00000000000000000000000000000000-0000000000000000-01"}`, `{"traceparent": "ff` + good[2:] + `"}`,
		`{"other": "` + good + `", "x": "traceparent"}`, "{\"traceparent\": \"\xff\"}", strings.Repeat("[", 20_000) + `"traceparent"`,
	} {
		provider, spans := recorder(t)
		inner := &telling{}
		e := traced(0)
		e.Headers = []byte(headers)
		tracing.Publisher(inner, provider).Publish([]*relay.Event{e}, func(*relay.Event, error) {})
		inner.done(e, nil)
		if got := spans.GetSpans(); len(got) != 1 || len(got[0].Links) != 0 {
			t.Errorf("%.60s: spans %+v, want one without a link", headers, got)
		}
		if inner.events[0] != e || string(e.Headers) != headers {
			t.Errorf("%.60s: the event was changed", headers)
		}
	}
}

func TestATraceWithAnUnreadableStateIsLinkedAllTheSame(t *testing.T) {
	t.Parallel()
	provider, spans := recorder(t)
	inner := &telling{}
	e := traced(0)
	e.Headers = fmt.Appendf(nil, `{"traceparent": %q, "tracestate": "=,=,="}`, parentOf(0))
	tracing.Publisher(inner, provider).Publish([]*relay.Event{e}, func(*relay.Event, error) {})
	inner.done(e, nil)
	if got := spans.GetSpans(); len(got) != 1 || len(got[0].Links) != 1 {
		t.Errorf("spans %+v, want one with a link", got)
	}
}

func TestABatchSaysHowManyOfItsEventsFailedAndNotWhatTheyHold(t *testing.T) {
	t.Parallel()
	provider, spans := recorder(t)
	inner := &telling{}
	events := []*relay.Event{traced(0), traced(1), traced(2)}
	events[2].Topic = bills
	told := 0
	tracing.Publisher(inner, provider).Publish(events, func(*relay.Event, error) { told++ })
	inner.done(events[0], &relay.PublishError{Class: relay.ClassEvent, Code: "MESSAGE_TOO_LARGE", Err: errors.New("secret-payload is large")})
	inner.done(events[1], errors.New("secret-payload"))
	inner.done(events[2], nil)
	got := named(spans, "publish")
	if told != 3 || len(got) != 1 || got[0].Status.Code != codes.Error || got[0].Status.Description != "MESSAGE_TOO_LARGE" {
		t.Fatalf("%d outcomes told, spans %+v", told, got)
	}
	said := map[string]string{}
	for _, a := range got[0].Attributes {
		said[string(a.Key)] = a.Value.String()
	}
	want := map[string]string{
		"messaging.system": "kafka", "messaging.operation.name": "publish", "messaging.operation.type": "send", "messaging.batch.message_count": "3",
		"error.type": "MESSAGE_TOO_LARGE", "outbox.batch.failed_count": "2",
	}
	if got, want := fmt.Sprint(said), fmt.Sprint(want); got != want {
		t.Errorf("attributes %s, want %s", got, want)
	}
	noSecrets(t, spans)
}

func TestATracedPublisherCanDoWhatItsPublisherCan(t *testing.T) {
	t.Parallel()
	provider, _ := recorder(t)
	if _, able := tracing.Publisher(&lettering{}, provider).(relay.Letterer); !able {
		t.Error("dead letters are lost")
	}
	if _, able := tracing.Publisher(&telling{}, provider).(relay.Letterer); able {
		t.Error("dead letters are promised")
	}
	plain := &telling{}
	if tracing.Publisher(plain, nil) != relay.Publisher(plain) {
		t.Error("without a provider the publisher is another one")
	}
}

func TestNothingIsAllocatedForAnEventWhileNothingIsRecorded(t *testing.T) {
	few, many := []*relay.Event{traced(0)}, make([]*relay.Event, 1000)
	for i := range many {
		many[i] = traced(i)
	}
	for name, provider := range map[string]trace.TracerProvider{
		"none": nil, "noop": noop.NewTracerProvider(), "sampled out": sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
	} {
		inner := &telling{}
		p := tracing.Publisher(inner, provider)
		done := func(*relay.Event, error) {}
		run := func(events []*relay.Event) float64 {
			return testing.AllocsPerRun(100, func() {
				p.Publish(events, done)
				for _, e := range events {
					inner.done(e, nil)
				}
			})
		}
		one, thousand := run(few), run(many)
		if thousand > one || provider == nil && thousand > 0 {
			t.Errorf("%s: %v allocations for a batch of 1,000 events, %v for one of 1", name, thousand, one)
		}
	}
}

func FuzzHeadersOfARow(f *testing.F) {
	f.Add([]byte(`{"traceparent": "` + parentOf(1) + `", "tracestate": "a=b"}`))
	f.Add([]byte(`{"traceparent": 1}`))
	provider, spans := recorder(f)
	f.Fuzz(func(t *testing.T, headers []byte) {
		spans.Reset()
		inner := &telling{}
		e := traced(0)
		e.Headers = headers
		tracing.Publisher(inner, provider).Publish([]*relay.Event{e}, func(*relay.Event, error) {})
		inner.done(e, nil)
		if got := spans.GetSpans(); len(got) != 1 || len(got[0].Links) > 0 && !json.Valid(headers) {
			t.Errorf("%q: %+v", headers, got)
		}
	})
}
