//go:build integration

package pooler_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devbouncer"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/relay"
)

// run expects the command to succeed, and its output to hold what is wanted.
func (f *fixture) run(t *testing.T, want string, args ...string) {
	t.Helper()
	stdout, stderr, code := f.outbox(t, args...)
	if code != 0 || !strings.Contains(stdout, want) {
		t.Errorf("outbox %s ended with %d, want 0 and %q:\n%s%s", strings.Join(args, " "), code, want, stdout, stderr)
	}
}

// Each command meets sessions that others have used, again and again: what is prepared in one would be missing in the next.
func TestTheCommandsWorkWithoutAnySetting(t *testing.T) {
	t.Parallel()
	for _, version := range []string{old, recent} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, devbouncer.Options{Version: version}, pgtest.Empty)
			f.run(t, "created   table", "migrate", "up")
			for range 3 {
				f.run(t, "ready", "migrate", "up")
				f.run(t, "applied", "migrate", "status")
				f.insert(t, "no topic!", "order-1")
				f.insert(t, topic, "order-2")
				e := f.start(t, f.url(), relay.Config{})
				await.Until(t, "the key is parked", func() bool { return queryOne[int](t, f.db.URL, "SELECT count(*) FROM outbox.parked_key") == 1 })
				f.run(t, "parked keys     1", "status")
				f.run(t, "order-1", "keys", "list")
				f.run(t, "", "keys", "unpark", "--topic", "no topic!", "--key", "order-1")
				await.Until(t, "the key is parked again", func() bool { return queryOne[int](t, f.db.URL, "SELECT count(*) FROM outbox.parked_key") == 1 })
				e.stop()
				// With no relay alive the command takes the lease itself.
				f.run(t, "", "keys", "skip", "--topic", "no topic!", "--key", "order-1", "--reason", "sent by hand")
				f.run(t, "no key is parked", "keys", "list")
				f.insert(t, topic, "order-2")
				f.run(t, "published 1 event", "relay", "--once")
			}
			f.checkOrder(t)
		})
	}
}

// BL-109, through the pooler: every step takes its lock and does its work in one transaction.
func TestManyMigrateAtOnceThroughThePooler(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{}, pgtest.Empty)
	pool := f.pool(t, "exec")
	const processes = 16
	results, errs := make([]migrate.Result, processes), make([]error, processes)
	var wg sync.WaitGroup
	for i := range processes {
		wg.Go(func() { results[i], errs[i] = migrate.Up(t.Context(), pool, migrate.Config{}) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	applied, created := 0, 0
	for _, r := range results {
		applied += len(r.Applied)
		if r.SourceCreated {
			created++
		}
		if r.Source != results[0].Source {
			t.Errorf("sources %s and %s, want one", r.Source, results[0].Source)
		}
	}
	if steps := queryOne[int](t, f.db.URL, "SELECT count(*) FROM outbox.migration"); applied != steps || created != 1 {
		t.Errorf("%d steps were applied and %d sources created, want %d and 1", applied, created, steps)
	}
}
