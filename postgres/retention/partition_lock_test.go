package retention

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

func TestAnotherRunOfThePartitionsIsNamedBeforeItIsOver(t *testing.T) {
	t.Parallel()
	o, log := newPruner(t, pgtest.Partitioned(t, "id", "1..101")), &await.Journal{}
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	row, err := o.db.Source(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, err := o.exclude(t.Context(), row, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		second, err := o.exclude(t.Context(), row, 5*time.Minute)
		if err == nil {
			second.release(t.Context())
		}
		got <- err
	}()
	await.Until(t, "it is said who is waited for", func() bool { return log.Says("waiting for another run") })
	pid := fmt.Sprintf("pid %d, application ", first.conn.PgConn().PID())
	first.release(t.Context())
	if err := <-got; err != nil {
		t.Error(err)
	}
	if text := log.Text(); !strings.Contains(text, pid) || !strings.Contains(text, "outbox-prune") || strings.Count(text, "\n") != 1 {
		t.Errorf("the log says %q, want one line with %q and outbox-prune", text, pid)
	}
}
