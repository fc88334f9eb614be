package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/tracing"
)

func received(headers ...inbox.Header) inbox.Event[[]byte] {
	r := &inbox.Record{Topic: orders, Partition: 3, Offset: 17, Key: []byte("secret-key"), Value: []byte("secret-payload"), Headers: headers}
	return inbox.Event[[]byte]{ID: "e-1", Type: placed, Payload: r.Value, Record: r}
}

func TestAHandlersSpanContinuesTheRecordsTrace(t *testing.T) {
	t.Parallel()
	provider, spans := recorder(t)
	ctx, end := tracing.Handlers(provider).Handling(t.Context(), "billing", received(
		inbox.Header{Key: "traceparent", Value: []byte(parentOf(1))}, inbox.Header{Key: "tracestate", Value: []byte("a=b")}))
	if len(spans.GetSpans()) != 0 {
		t.Fatal("the span has ended before its handler")
	}
	end(nil)
	got := spans.GetSpans()[0]
	if !got.SpanContext.Equal(trace.SpanContextFromContext(ctx)) || got.Parent.SpanID().String() != parentOf(1)[36:52] || got.SpanContext.TraceState().String() != "a=b" || got.Status.Code != codes.Unset {
		t.Errorf("span %+v", got)
	}
	said := map[string]string{}
	for _, a := range got.Attributes {
		said[string(a.Key)] = a.Value.String()
	}
	want := map[string]string{
		"messaging.system": "kafka", "messaging.operation.name": "process", "messaging.operation.type": "process", "messaging.destination.name": orders,
		"messaging.destination.partition.id": "3", "messaging.kafka.offset": "17", "messaging.consumer.group.name": "billing", "messaging.message.id": "e-1",
		"outbox.event.type": placed,
	}
	if got, want := fmt.Sprint(said), fmt.Sprint(want); got != want {
		t.Errorf("attributes %s, want %s", got, want)
	}
	noSecrets(t, spans)
}

func TestWithoutATraceThatCanBeReadAHandlersSpanBeginsOne(t *testing.T) {
	t.Parallel()
	provider, spans := recorder(t)
	around, request := provider.Tracer("test").Start(t.Context(), "around")
	for _, parent := range []string{"", "rubbish", parentOf(1)[:54], "00-" + strings.Repeat("0", 32) + parentOf(1)[35:]} {
		spans.Reset()
		_, end := tracing.Handlers(provider).Handling(around, "billing", received(inbox.Header{Key: "traceparent", Value: []byte(parent)}))
		end(nil)
		got := spans.GetSpans()[0]
		if got.Parent.IsValid() || len(got.Links) != 1 || !got.Links[0].SpanContext.Equal(request.SpanContext()) {
			t.Errorf("%q: span %+v, want one without a parent, linked to what is around", parent, got)
		}
	}
	request.End()
}

func TestAHandlersErrorIsTheSpansByItsTypeAlone(t *testing.T) {
	t.Parallel()
	provider, spans := recorder(t)
	_, end := tracing.Handlers(provider).Handling(t.Context(), "billing", received())
	end(errors.New("secret-payload"))
	if got := spans.GetSpans()[0]; got.Status.Code != codes.Error || got.Status.Description != "*errors.errorString" {
		t.Errorf("status %+v", got.Status)
	}
	noSecrets(t, spans)
}

func TestWithoutAProviderAHandlersEventsContinueTheTraceAllTheSame(t *testing.T) {
	t.Parallel()
	ctx, end := tracing.Handlers(nil).Handling(t.Context(), "billing", received(inbox.Header{Key: "traceparent", Value: []byte(parentOf(1))}))
	end(nil)
	if got := tracing.Headers(ctx)["traceparent"]; got != parentOf(1) {
		t.Errorf("traceparent %q, want that of the record", got)
	}
}

func TestHeadersAreThoseOfTheContextsSpan(t *testing.T) {
	t.Parallel()
	if got := tracing.Headers(context.Background()); got != nil {
		t.Errorf("without a span: %v", got)
	}
	provider, _ := recorder(t)
	ctx, span := provider.Tracer("test").Start(t.Context(), "x")
	defer span.End()
	s := span.SpanContext()
	want := "map[traceparent:00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-01]"
	if got := fmt.Sprint(tracing.Headers(ctx)); got != want {
		t.Errorf("headers %s, want %s", got, want)
	}
}
