//go:build integration && unix

package upgrade_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/await"
)

// Migrations of a program to come: one as all of ours are, and one that today's program cannot live with.
var (
	widens = migration{"widens", `-- More of everything, as migrations add it.
ALTER TABLE outbox.source ADD COLUMN next text;
ALTER TABLE outbox.lane ADD COLUMN next text NOT NULL DEFAULT 'next';
ALTER TABLE outbox.relay ADD COLUMN next integer NOT NULL DEFAULT 1 CHECK (next > 0);
ALTER TABLE outbox.migration ADD COLUMN next text;
ALTER TABLE outbox.failure ADD COLUMN next text;
CREATE TABLE outbox.next (source uuid PRIMARY KEY REFERENCES outbox.source ON DELETE CASCADE);
`}
	narrows = migration{"narrows", `-- breaks: what a failed attempt has left is somewhere else from here on
COMMENT ON TABLE outbox.failure IS 'moved';
`}
)

// A program of today goes on, and starts, on the schema of the next one; and where that one breaks, it keeps away, and the migration waits until it is gone.
func TestTodaysRelaysWorkOnTheNextSchemaUntilOneBreaks(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	then := next(t, widens, narrows)
	is := newest(t)
	widened, narrowed := fmt.Sprintf("%03d_widens", is+1), fmt.Sprintf("%03d_narrows", is+2)
	s.open(t)
	first := s.start(t, today, "first")
	s.awaitOwners(t, "first")
	s.awaitFlow(t)

	stdout, stderr, code := s.run(t, then, "migrate", "up")
	says(t, "the next program's migrate up under today's relay", code, 1, stderr, "outbox: migrate public.outbox_event: apply migration "+narrowed+
		": older relays cannot work with the schema after it, and these are alive: first (public.outbox_event); stop them all, then run it again\n")
	if got := s.version(t); got != is+1 {
		t.Fatalf("version %d is applied, want %d\n%s", got, is+1, stdout)
	}
	s.awaitFlow(t)
	second := s.start(t, today, "second")
	s.awaitOwners(t, "first", "second")
	first.stop()
	s.awaitOwners(t, "second")
	s.awaitFlow(t)

	_, stderr, code = s.run(t, today, "migrate", "up")
	says(t, "today's migrate up on the next schema", code, 1, stderr, fmt.Sprintf("outbox: migrate public.outbox_event: the schema outbox is newer than this program: "+
		"the database has %s, this program ends at %03d; use a newer program\n", widened, is))
	if stdout, _, code = s.run(t, today, "migrate", "status"); code != 0 || !strings.Contains(stdout, "ready     public.outbox_event") {
		t.Errorf("today's migrate status on the next schema: %d\n%s", code, stdout)
	}

	// Somebody has applied by hand what breaks, with the relay at work.
	mark := func(breaks bool) {
		scan[int](t, s, "UPDATE outbox.migration SET breaks = $2 WHERE version = $1 RETURNING version", is+1, breaks)
	}
	mark(true)
	await.Until(t, "the relay says that it is outgrown", func() bool {
		return second.log.Says("the schema outbox has outgrown this program: it was migrated to " + widened)
	})
	await.Until(t, "nobody has a lane", func() bool {
		return !scan[bool](t, s, "SELECT EXISTS (SELECT FROM outbox.lane WHERE expires_at > clock_timestamp())")
	})
	mark(false)
	s.awaitOwners(t, "second")
	s.awaitFlow(t)

	second.stop()
	if stdout, stderr, code = s.run(t, then, "migrate", "up"); code != 0 || s.version(t) != is+2 {
		t.Fatalf("the next program's migrate up with no relay: %d, version %d\n%s%s", code, s.version(t), stdout, stderr)
	}
	outgrown := fmt.Sprintf("outbox: open source: public.outbox_event: the schema outbox has outgrown this program: it was migrated to %s, and programs that end at %03d cannot work "+
		"with that; use the program that migrated it, or a newer one\n", narrowed, is)
	_, stderr, code = s.run(t, today, "relay", "--log-format", "text")
	says(t, "today's relay on a schema that breaks it", code, 78, lastLine(stderr), outgrown)
	_, stderr, code = s.run(t, today, "relay", "--mode", "competing", "--log-format", "text")
	says(t, "today's competing relay on a schema that breaks it", code, 78, lastLine(stderr), outgrown)
	if stdout, _, code = s.run(t, today, "migrate", "status"); code != 1 || !strings.Contains(stdout, "not ready") {
		t.Errorf("today's migrate status on a schema that breaks it: %d\n%s", code, stdout)
	}

	third := s.start(t, then, "next")
	s.awaitOwners(t, "next")
	s.judge(t)
	third.stop()
}
