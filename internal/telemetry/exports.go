package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// exports says when traces begin to be lost, and when they arrive again, and not each time.
type exports struct {
	sdktrace.SpanExporter
	log     *slog.Logger
	failing atomic.Bool
}

// ExportSpans never fails: the library would say so each time.
func (e *exports) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch failed := err != nil; {
	case failed && !e.failing.Swap(true):
		e.log.Warn("traces cannot be sent, and are lost until they can", "error", brief(err))
	case !failed && e.failing.Swap(false):
		e.log.Info("traces are sent again")
	}
	return nil //nolint:nilerr // it is said above
}
