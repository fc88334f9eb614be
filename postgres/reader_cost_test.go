package postgres

import (
	"context"
	"regexp"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
)

// looks returns how many holes, as ids and spans, n reads look up while a writer rolls back one event in twenty.
func (b *bench) looks(n int) int {
	b.Helper()
	before := b.count.looked
	for range n {
		b.exec("SELECT nextval('outbox_event_id_seq')")
		for range 5 {
			b.insert("c")
		}
		b.read()
	}
	return b.count.looked - before
}

// A writer that stays open makes every hole wait for it. The reads must not look at more and more of them.
func TestReadsDoNotGrowWithAnOpenWriter(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"since before start", "since after start"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			long := b.begin()
			if name == "since before start" {
				long.insert("long")
				b.start()
			} else {
				b.start()
				b.read()
				long.insert("long")
			}
			first := b.looks(30)
			if last := b.looks(30); last > first+5 {
				t.Errorf("30 reads looked at %d holes, the next 30 at %d", first, last)
			}
			if n := b.batch(10).OpenWriters; n != 1 {
				t.Errorf("%d open writers, want 1: %s", n, b)
			}
			long.commit()
			b.wantDrained(1)
			b.wantNoHoles()
		})
	}
}

// Without the shortcut, 60 reads above would have looked at 30·60 holes. This shows that the counting can fail.
func TestHolesAreLookedAtWhileTheirHolderHasNoXid(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.read()
	long := b.begin()
	long.exec("LOCK TABLE outbox_event IN ROW EXCLUSIVE MODE")
	first := b.looks(30)
	if last := b.looks(30); last <= first+5 {
		t.Errorf("30 reads looked at %d holes, the next 30 at %d", first, last)
	}
}

var bufferCount = regexp.MustCompile(`(?m)^  Buffers: shared (?:hit=(\d+))? ?(?:read=(\d+))?`)

// buffers returns how many pages the read statement touches now.
func (b *bench) buffers() int {
	b.Helper()
	q := &question{limit: 100}
	q.look, q.skipped = b.holes.toLook()
	plan := b.explain(b.build(q), "(ANALYZE, BUFFERS)")
	m := bufferCount.FindStringSubmatch(plan)
	if m == nil {
		b.Fatalf("no buffers in the plan:\n%s", plan)
	}
	hit, _ := strconv.Atoi(m[1])
	read, _ := strconv.Atoi(m[2])
	return hit + read
}

// While an old snapshot keeps all dead row versions, a read touches no more pages than without.
func TestReadsDoNotGrowWithAHeldSnapshot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	work := func() int {
		for range 20 {
			b.fill(500)
			b.drain(1000)
			b.settleAll()
		}
		for range 50 {
			b.insert("a")
		}
		return b.buffers()
	}
	free := work()
	b.drain(1000)
	held := b.begin()
	held.exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	held.exec("SELECT pg_current_xact_id()")
	first := work()
	b.drain(1000)
	last := work()
	if limit := 2*free + 50; first > limit || last > limit {
		t.Errorf("a read touches %d pages, with a held snapshot %d and then %d", free, first, last)
	}
}

// A reader that is not alone on its connection leaves nothing behind in it.
func TestReadsLeaveNothingInTheSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.read()
	err := b.reader.db.Run(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
		var bitmap, jit string
		var prepared int
		row := conn.QueryRow(ctx, "SELECT current_setting('enable_bitmapscan'), current_setting('jit'), (SELECT count(*) FROM pg_prepared_statements)",
			pgx.QueryExecModeExec)
		err := row.Scan(&bitmap, &jit, &prepared)
		// The look for parked keys is pgx's own statement; the connection's configuration decides how it is run.
		if bitmap != "on" || prepared > 1 {
			t.Errorf("enable_bitmapscan is %s, %d prepared statements", bitmap, prepared)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Rows that cannot move, such as those of parked keys, cost a read nothing.
func TestReadsDoNotGrowWithBlockedRows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.insert("a")
	b.drain(1000)
	free := b.buffers()
	b.fill(20_000)
	b.drain(5000)
	if blocked := b.buffers(); blocked > free+20 {
		t.Errorf("a read touches %d pages, with blocked rows %d", free, blocked)
	}
}
