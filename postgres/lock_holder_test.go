package postgres

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/await"
)

func TestAChangeOfTheLanesSaysWhomItWaitsFor(t *testing.T) {
	t.Parallel()
	db, log := newDatabase(t), &await.Journal{}
	o, err := NewOperator(db, Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	tx := begin(t, db)
	if _, err := tx.Exec(t.Context(), `SELECT set_config('application_name', 'a long look', true) FROM outbox.source FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	pid := fmt.Sprintf("pid %d, application ", tx.Conn().PgConn().PID())
	changed := make(chan error, 1)
	go func() { changed <- o.SetLanes(t.Context(), 4) }()
	await.Until(t, "it is said who is waited for", func() bool { return log.Says("waiting for a lock") })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-changed; err != nil {
		t.Error(err)
	}
	if text := log.Text(); !strings.Contains(text, pid) || !strings.Contains(text, "a long look") || strings.Count(text, "\n") != 1 {
		t.Errorf("the log says %q, want one line with %q and the application's name", text, pid)
	}
}

// A busy server may take its time before the lock.
func TestAWaitThatBeginsLateIsSaidToo(t *testing.T) {
	t.Parallel()
	db, log := newDatabase(t), &await.Journal{}
	o, err := NewOperator(db, Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	holder, waiting := begin(t, db), begin(t, db)
	if _, err := holder.Exec(t.Context(), `SELECT FROM outbox.source FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	done, err := o.sayWaits(t.Context(), waiting, "a look")
	if err != nil {
		t.Fatal(err)
	}
	looked := make(chan error, 1)
	go func() {
		_, err := waiting.Exec(t.Context(), `SET LOCAL lock_timeout = 0; SELECT pg_sleep(1.5); SELECT FROM outbox.source FOR UPDATE`)
		looked <- err
	}()
	await.Until(t, "it is said who is waited for", func() bool { return log.Says("waiting for a lock") })
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-looked; err != nil {
		t.Error(err)
	}
	done()
}
