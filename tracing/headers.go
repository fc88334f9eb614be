package tracing

import (
	"bytes"
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox/inbox"
)

// Names of the headers, by W3C trace context.
const (
	headerParent = "traceparent"
	headerState  = "tracestate"
)

// Headers returns the headers that name the context's span, nil when it has none. It is for the ContextHeaders of outbox.Config. For outbox.Statement, give it to the
// Headers of each event.
func Headers(ctx context.Context) map[string]string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	headers := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, headers)
	return headers
}

// spanOf returns the span that headers name; it is not valid when they name none.
func spanOf(parent, state string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	headers := propagation.MapCarrier{headerParent: parent, headerState: state}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), headers))
}

// ofRow returns the span that the text of a row's column headers names, without the tracestate, which is as long as its writer likes. Rows without a trace cost a look at their
// bytes.
func ofRow(text []byte) trace.SpanContext {
	if !bytes.Contains(text, []byte(headerParent)) {
		return trace.SpanContext{}
	}
	var headers map[string]json.RawMessage
	if json.Unmarshal(text, &headers) != nil {
		return trace.SpanContext{} // the publisher says what is wrong with the row
	}
	return spanOf(textOf(headers[headerParent]), "")
}

// textOf is "" for what is no string.
func textOf(raw json.RawMessage) (text string) {
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// ofRecord returns the span that a record's headers name.
func ofRecord(r *inbox.Record) trace.SpanContext {
	parent, _ := r.Header(headerParent)
	state, _ := r.Header(headerState)
	return spanOf(string(parent), string(state))
}
