package tracing

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox/relay"
)

// MaxLinks is how many events a batch's span is linked to at most; OpenTelemetry's SDK keeps no more of a span by default.
const MaxLinks = 128

// Publisher returns the publisher with a span for each batch: from when the events are handed over until each has its outcome. The span is linked to the spans in which the
// first [MaxLinks] of them were written; those of one transaction count once. While the provider does not record, nothing is done for an event. A nil provider records
// nothing.
func Publisher(p relay.Publisher, provider trace.TracerProvider) relay.Publisher {
	if provider == nil {
		return p
	}
	traced := &publisher{p, provider.Tracer(scope)}
	if letterer, able := p.(relay.Letterer); able {
		return struct {
			*publisher
			relay.Letterer
		}{traced, letterer}
	}
	return traced
}

type publisher struct {
	relay.Publisher
	tracer trace.Tracer
}

// Publish implements [relay.Publisher].
func (p *publisher) Publish(events []*relay.Event, done func(*relay.Event, error)) {
	if len(events) > 0 {
		name, options := batchSpan(events)
		if _, span := p.tracer.Start(context.Background(), name, options...); span.IsRecording() {
			link(span, events)
			done = (&batch{span: span, left: len(events), done: done}).outcome
		}
	}
	p.Publisher.Publish(events, done)
}

// link leaves out what the event before has as well: a transaction's events stand beside each other.
func link(span trace.Span, events []*relay.Event) {
	var last trace.SpanContext
	links := 0
	for _, e := range events {
		if links == MaxLinks {
			return
		}
		if of := ofRow(e.Headers); of.IsValid() && !of.Equal(last) {
			span.AddLink(eventLink(e, of))
			last = of
			links++
		}
	}
}

// batch waits for the outcomes of its events. They are told one at a time.
type batch struct {
	span         trace.Span
	left, failed int
	// why is the first error.
	why  error
	done func(*relay.Event, error)
}

func (b *batch) outcome(e *relay.Event, err error) {
	if err != nil {
		b.failed++
		if b.why == nil {
			b.why = err
		}
	}
	if b.left--; b.left == 0 {
		b.end()
	}
	b.done(e, err)
}

// end says of an error its code alone: its text may quote what a row holds.
func (b *batch) end() {
	if b.why != nil {
		why := failedWith(b.why)
		b.span.SetAttributes(keyFailed.Int(b.failed), why)
		b.span.SetStatus(codes.Error, why.Value.AsString())
	}
	b.span.End()
}
