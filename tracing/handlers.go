package tracing

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/outbox-relay/outbox/inbox"
)

// Handlers returns a tracer for inbox.Config. Each call of a handler has a span, whose parent is the span that the record's headers name; without one a trace begins.
// A span that the context has already is linked. A nil provider records nothing, and lets the handler's events continue the record's trace all the same.
func Handlers(provider trace.TracerProvider) inbox.Tracer {
	if provider == nil {
		provider = noop.NewTracerProvider()
	}
	return &handlers{provider.Tracer(scope)}
}

type handlers struct{ tracer trace.Tracer }

// Handling implements [inbox.Tracer]. The text of a handler's error may quote what a record holds, and is left to the log.
func (h *handlers) Handling(ctx context.Context, consumer string, e inbox.Event[[]byte]) (context.Context, func(error)) {
	name, options := handlerSpan(consumer, e)
	if around := trace.SpanContextFromContext(ctx); around.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: around}))
	}
	if parent := ofRecord(e.Record); parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else {
		options = append(options, trace.WithNewRoot())
	}
	ctx, span := h.tracer.Start(ctx, name, options...)
	return ctx, func(err error) {
		if err != nil {
			why := failedWith(err)
			span.SetAttributes(why)
			span.SetStatus(codes.Error, why.Value.AsString())
		}
		span.End()
	}
}
