// Package tracing carries a trace from the transaction that writes an event to the handler that a consumer runs for it, by OpenTelemetry and the headers of W3C
// trace context. It needs the API of OpenTelemetry only; which spans are kept, and where they go, is up to the provider that it is given.
//
//	service, in a span      writer: headers traceparent, tracestate of the row       outbox.Config{ContextHeaders: tracing.Headers}
//	relay                   a span for each batch, with links to the events' spans   tracing.Publisher(publisher, provider)
//	record in Kafka         the row's headers, as they are
//	consumer                a span for each call of a handler, child of the writer's inbox.Config{Tracer: tracing.Handlers(provider)}
//	handler                 its context has that span: events that it writes belong to the same trace
//
// Headers are never changed on the way. What an application has written itself stays, and a traceparent that cannot be read is nobody's parent and no error.
// No span has an event's payload or key.
package tracing
