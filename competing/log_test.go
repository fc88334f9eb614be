package competing_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/competing"
	"github.com/outbox-relay/outbox/internal/await"
)

func TestKeysAreInTheLogOnlyWhenTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]bool{"by default": false, "asked for": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.insert(topic, "plantedkey", 1)
			w.exec(`UPDATE outbox_event SET payload = to_jsonb(repeat('x', 2 << 20))`)
			log := &await.Journal{}
			w.start(w.relay(competing.Config{LogKeys: asked, Logger: slog.New(slog.NewTextHandler(log, nil))}))
			w.eventually("the failure is said", func() bool { return log.Says("its key is held") })
			if strings.Contains(log.Text(), "plantedkey") != asked {
				t.Errorf("asked for: %v; log %s", asked, log.Text())
			}
		})
	}
}
