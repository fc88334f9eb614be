package benchmark

import (
	"context"
	"slices"
	"testing"
	"time"
)

// kill makes what a run makes and forgets about it, as the end of its process does: the transaction that tells that it lives ends with its connection.
func (w *world) kill(t *testing.T, at time.Time) (p Plan, alive func()) {
	t.Helper()
	c := w.config()
	c.now = func() time.Time { return at }
	b := w.bench(t, c)
	p = w.plan(t, b)
	s := &scratch{bench: b}
	if err := s.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p, func() {
		s.alive.end(context.WithoutCancel(t.Context()))
	}
}

func TestWhatAKilledRunLeftIsRemovedByTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	killed, end := w.kill(t, time.Now())
	b := w.bench(t, w.config())
	if p := w.plan(t, b); p.Leftovers.Any() {
		t.Errorf("a run that lives is taken for left: %+v", p.Leftovers)
	}
	end()
	p := w.plan(t, b)
	if !slices.Equal(p.Leftovers.Schemas, []string{killed.Schema}) || !slices.Equal(p.Leftovers.Topics, []string{killed.Topic}) {
		t.Fatalf("leftovers: %+v, want those of %+v", p.Leftovers, killed)
	}
	if _, err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := w.traces(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A schema that merely has such a name is nobody's to drop.
func TestOnlyWhatABenchHasMadeIsTakenForLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.db.Exec(t, "CREATE SCHEMA outbox_bench_20200101_000000_abcdef")
	w.db.Exec(t, "CREATE SCHEMA outbox_bench_mine; COMMENT ON SCHEMA outbox_bench_mine IS '"+schemaComment+"'")
	for _, topic := range []string{"outbox-bench-mine", "outbox-bench-20200101-000000-abcdeF"} {
		b := w.bench(t, w.config())
		if _, _, err := b.topics.Create(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
	}
	b := w.bench(t, w.config())
	if p := w.plan(t, b); p.Leftovers.Any() {
		t.Errorf("leftovers: %+v", p.Leftovers)
	}
	if err := b.dropSchema(t.Context(), "outbox_bench_mine"); err == nil {
		t.Error("it drops a schema that is not its own")
	}
}

// A topic whose run was in another database is left alone until it is old.
func TestATopicOfAnotherDatabaseIsLeftAloneForADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := w.config()
	topic := topicOf(newName(made))
	b := w.bench(t, c)
	if _, _, err := b.topics.Create(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	for age, want := range map[time.Duration]bool{23 * time.Hour: false, 25 * time.Hour: true} {
		b.cfg.now = func() time.Time { return made.Add(age) }
		if p := w.plan(t, b); p.Leftovers.Any() != want {
			t.Errorf("after %s: %+v", age, p.Leftovers)
		}
	}
}

// Whatever ends the transaction by which others see that a run lives, the run ends by it, between two steps or within one, and removes what it has made.
func TestARunWhoseSignOfLifeIsLostEnds(t *testing.T) {
	t.Parallel()
	for _, within := range []bool{false, true} {
		w := newWorld(t)
		c := w.config()
		var schema string
		end := func() {
			w.db.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND (classid::bigint << 32) | objid::bigint = hashtextextended('`+schema+`', 0) AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		}
		if within {
			c.Duration = MaxDuration
			c.step = func(point string) {
				if point == "live" {
					end()
				}
			}
		} else {
			c.Progress = func(text string) {
				if text == "draining it" {
					end()
				}
			}
		}
		b := w.bench(t, c)
		schema = w.plan(t, b).Schema
		r, err := b.Run(t.Context())
		if err == nil || r.Limits != nil {
			t.Errorf("within %t: %v", within, err)
			continue
		}
		contains(t, err.Error(), "tells that the bench lives was ended")
		if left := w.traces(t); len(left) > 0 {
			t.Errorf("within %t: left %q", within, left)
		}
	}
}

// A run that began to live after the plan was made is not removed under it.
func TestWhatSomebodyLivesInIsNotRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	killed, end := w.kill(t, time.Now())
	defer end()
	b := w.bench(t, w.config())
	if err := b.removeLeftovers(t.Context(), Leftovers{Schemas: []string{killed.Schema}, Topics: []string{killed.Topic}}); err != nil {
		t.Fatal(err)
	}
	if got := w.topics(t); !slices.Equal(got, []string{killed.Topic}) {
		t.Errorf("topics: %q", got)
	}
	if got := w.texts(t, "SELECT nspname FROM pg_namespace WHERE nspname = '"+killed.Schema+"'"); len(got) != 1 {
		t.Error("its schema is gone")
	}
}
