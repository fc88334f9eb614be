package postgres

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestTheWatchSaysWhenTheIndexGoesAndComesBack(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	var log bytes.Buffer
	s, err := New(db, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.Watch(t.Context()); err == nil {
		t.Error("a source that is not open was watched")
	}
	if _, err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	look := func(want int, text string) {
		t.Helper()
		for range 2 {
			if err := s.Watch(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Count(log.String(), "\n") != want || !strings.Contains(log.String(), text) {
			t.Errorf("%d lines with %q wanted, the log is:\n%s", want, text, log.String())
		}
	}
	look(0, "")
	exec(t, db, `DROP INDEX ix_outbox_event_unpublished`)
	look(1, "level=WARN")
	exec(t, db, `CREATE INDEX ix_outbox_event_unpublished ON outbox_event(id) WHERE published_at IS NULL`)
	look(2, "is back")
}
