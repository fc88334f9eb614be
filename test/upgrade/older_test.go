//go:build integration && unix

package upgrade_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

// A deploy in the documented order, under load, and back again: the schema is migrated under an older relay, which goes on beside today's, and alone when the deploy is
// taken back.
func TestOlderRelaysWorkOnTodaysSchemaBesideTodaysRelays(t *testing.T) {
	t.Parallel()
	s := newShop(t, pgtest.Empty)
	before := older(t)
	if _, stderr, code := s.run(t, before, "migrate", "up"); code != 0 {
		t.Fatalf("the older program's migrate up: %d\n%s", code, stderr)
	}
	was, is := s.version(t), newest(t)
	if was >= is {
		t.Fatalf("the older program's schema has version %d, and today's %d: take an older commit into the archive, as doc.go says", was, is)
	}
	s.open(t)
	old := s.start(t, before, "older")
	s.awaitOwners(t, "older")
	s.awaitFlow(t)

	var lacking []string
	for v := was + 1; v <= is; v++ {
		lacking = append(lacking, fmt.Sprintf("%03d", v))
	}
	_, stderr, code := s.run(t, today, "relay", "--log-format", "text")
	says(t, "today's relay on the older schema", code, 78, lastLine(stderr), fmt.Sprintf("outbox: open source: public.outbox_event: the schema outbox is older than this program: "+
		"it lacks the migrations %s; run: outbox migrate up --table public.outbox_event\n", strings.Join(lacking, ", ")))

	if stdout, stderr, code := s.run(t, today, "migrate", "up"); code != 0 || s.version(t) != is {
		t.Fatalf("today's migrate up: %d, version %d\n%s%s", code, s.version(t), stdout, stderr)
	}
	s.awaitFlow(t)
	for _, look := range []string{"status", "relays", "lanes list", "keys list", "events list", "jobs list", "audit"} {
		if stdout, stderr, code := s.run(t, before, strings.Fields(look)...); code != 0 {
			t.Errorf("the older program's %s on today's schema: %d\n%s%s", look, code, stdout, stderr)
		}
	}
	fresh := s.start(t, today, "today")
	s.awaitOwners(t, "older", "today")
	s.awaitFlow(t)
	old.stop()
	s.awaitOwners(t, "today")
	s.awaitFlow(t)

	// The deploy is taken back: an older relay starts on today's schema.
	old = s.start(t, before, "older again")
	s.awaitOwners(t, "older again", "today")
	s.awaitFlow(t)
	fresh.stop()
	s.awaitOwners(t, "older again")
	s.awaitFlow(t)
	fresh = s.start(t, today, "today again")
	s.awaitOwners(t, "older again", "today again")
	old.stop()
	s.awaitOwners(t, "today again")
	s.judge(t)
	fresh.stop()
}

// lastLine is the last line of what a program has said, with its end.
func lastLine(said string) string {
	return said[strings.LastIndex(strings.TrimSuffix(said, "\n"), "\n")+1:]
}
