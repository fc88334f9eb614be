package cli

import (
	"context"
	"log/slog"

	"github.com/outbox-relay/outbox/internal/telemetry"
)

// trace has the parts' batches traced if the OTEL_* variables ask for it.
func (a *app) trace(ctx context.Context, parts []*part, log *slog.Logger) *telemetry.Traces {
	service := telemetry.Service{Name: "outbox-relay", Version: version()}
	if len(parts) > 0 {
		service.Instance = parts[0].name
	}
	traces := telemetry.Start(ctx, func(name string) string { return a.env[name] }, service, log)
	for _, p := range parts {
		p.traces = traces.Provider()
	}
	return traces
}
