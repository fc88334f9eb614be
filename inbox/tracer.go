package inbox

import "context"

// Tracer follows the calls of handlers. Package tracing has one for OpenTelemetry.
type Tracer interface {
	// Handling is called before each call of a handler, from any goroutine, with the event's value as it is in Kafka. The handler is given the context that is returned,
	// which must be made of ctx; end is called once, with the handler's error. The same event may be handled several times. It is in the database only when the
	// transaction has been committed, which end does not know.
	Handling(ctx context.Context, consumer string, e Event[[]byte]) (given context.Context, end func(error))
}

// follow tells the tracer, if there is one, that a handler begins.
func (p *Processor[Tx]) follow(ctx context.Context, w work[Tx]) (given context.Context, end func(error)) {
	if p.cfg.Tracer == nil {
		return ctx, func(error) {}
	}
	return p.cfg.Tracer.Handling(ctx, p.consumer, Event[[]byte]{ID: w.id, Type: p.typeOf(w.record), Payload: w.record.Value, Record: w.record})
}
