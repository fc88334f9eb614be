package cli

import (
	"context"
	"log/slog"
	"sync"
)

// warnOnce is a log that says each warning of a source once: a source that does not come up is opened again and again, each time by a relay that knows nothing of
// the one before.
type warnOnce struct {
	slog.Handler
	said *sync.Map
}

func newWarnOnce(log *slog.Logger) *slog.Logger {
	return slog.New(warnOnce{log.Handler(), &sync.Map{}})
}

// Handle is of slog.Handler. What a source warns of is an attribute of that name.
func (w warnOnce) Handle(ctx context.Context, r slog.Record) error {
	again := false
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "warning" {
			_, again = w.said.LoadOrStore(a.Value.String(), true)
		}
		return !again
	})
	if again {
		return nil
	}
	return w.Handler.Handle(ctx, r)
}

// WithAttrs is of slog.Handler.
func (w warnOnce) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnOnce{w.Handler.WithAttrs(attrs), w.said}
}

// WithGroup is of slog.Handler.
func (w warnOnce) WithGroup(name string) slog.Handler {
	return warnOnce{w.Handler.WithGroup(name), w.said}
}
