package retention

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/expect"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/operate"
)

// plainNote is a note of which nobody knows who has written it: all that it says is which partition the table was.
const plainNote = `COMMENT ON TABLE outbox_event_0 IS 'outbox prune detaches this: {"table":"\"public\".\"outbox_event\"","from":"1","to":"101"}'`

func commentOf(t *testing.T, db *pgxpool.Pool, table string) string {
	t.Helper()
	return pgtest.One[string](t, db, `SELECT coalesce(obj_description($1::text::regclass, 'pg_class'), '')`, table)
}

func planPrune(t *testing.T, db *pgxpool.Pool, p operate.Prune) operate.PrunePlan {
	t.Helper()
	plan, err := newPruner(t, db).PlanPrune(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// halfDetach leaves a partition half detached, as somebody does who is interrupted while a reader has the table open.
func halfDetach(t *testing.T, db *pgxpool.Pool, name string) {
	t.Helper()
	reader := holdOpen(t, db, "SELECT count(*) FROM outbox_event")
	conn, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "SET lock_timeout = '200ms'"); err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), "ALTER TABLE outbox_event DETACH PARTITION "+name+" CONCURRENTLY")
	expect.Same(t, "the code of a detach that is held up", pg.Code(err), "55P03")
	if _, err := conn.Exec(t.Context(), "RESET lock_timeout"); err != nil {
		t.Fatal(err)
	}
	reader()
}

// holdOpen has a transaction open that has run the statement, until the returned function is called.
func holdOpen(t *testing.T, db *pgxpool.Pool, sql string) (end func()) {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() { pg.Rollback(tx) })
	t.Cleanup(end)
	return end
}

func TestADetachedPartitionWithUnpublishedEventsIsAttachedAgainThoughNothingElseIsToBeDone(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..101", "101..10001")
	settledRows(t, db, 150, time.Hour, "g = 50")
	pgtest.Exec(t, db, plainNote)
	pgtest.Exec(t, db, "ALTER TABLE outbox_event DETACH PARTITION outbox_event_0")
	plan := planPrune(t, db, partitions(168*time.Hour, 0))
	expect.Same(t, "the plan", plan.Pruned, operate.Pruned{Attached: []string{"public.outbox_event_0"}})
	expect.Same(t, "done", prune(t, db, partitions(168*time.Hour, 0)), operate.Pruned{Attached: []string{"public.outbox_event_0"}})
	expect.Same(t, "partitions", partitionsOf(t, db), []string{"outbox_event_0", "outbox_event_1"})
	expect.Same(t, "unpublished", pgtest.One[int](t, db, `SELECT id FROM outbox_event WHERE published_at IS NULL`), 50)
	expect.Same(t, "comment", commentOf(t, db, "outbox_event_0"), "")
}

// A detach of ours that was interrupted goes on; where an event is left the partition comes back.
func TestAHalfDetachedPartitionWithUnpublishedEventsIsAttachedAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..101", "101..201", "201..10001")
	settledRows(t, db, 250, 3*time.Hour, "g = 150")
	pgtest.Exec(t, db, `COMMENT ON TABLE outbox_event_0 IS 'kept for the auditors; don''t \o/'`)
	end := holdOpen(t, db, "SELECT count(*) FROM outbox_event")
	_, err := newPruner(t, db).Prune(t.Context(), partitions(time.Hour, 0), nil)
	expect.Text(t, err, "has been open for too long")
	expect.Same(t, "partitions", partitionsOf(t, db), []string{"outbox_event_0 pending", "outbox_event_1", "outbox_event_2"})
	end()
	pgtest.Exec(t, db, "UPDATE outbox_event_0 SET published_at = NULL WHERE id = 7")
	expect.Same(t, "the plan", planPrune(t, db, partitions(time.Hour, 0)).Attached, []string{"public.outbox_event_0"})
	expect.Same(t, "done", prune(t, db, partitions(time.Hour, 0)), operate.Pruned{Attached: []string{"public.outbox_event_0"}})
	expect.Same(t, "partitions", partitionsOf(t, db), []string{"outbox_event_0", "outbox_event_1", "outbox_event_2"})
	expect.Same(t, "unpublished", pgtest.One[int](t, db, `SELECT min(id) FROM outbox_event WHERE published_at IS NULL`), 7)
	expect.Same(t, "comment", commentOf(t, db, "outbox_event_0"), `kept for the auditors; don't \o/`)
}

// What somebody else has begun to detach is his affair; but nobody reads it, and that is said.
func TestAPartitionThatSomebodyElseHalfDetachedIsLeftAloneAndSaid(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..101", "101..201", "201..10001")
	settledRows(t, db, 250, 3*time.Hour, "false")
	halfDetach(t, db, "outbox_event_0")
	plan := planPrune(t, db, partitions(time.Hour, 0))
	expect.Same(t, "the plan", plan.Pruned, operate.Pruned{})
	expect.Same(t, "kept", plan.Kept, map[string]string{
		"public.outbox_event_0": `somebody detaches it from public.outbox_event, or was interrupted when he did: ALTER TABLE "public"."outbox_event" DETACH PARTITION "public"."outbox_event_0" FINALIZE; ends it`,
		"public.outbox_event_1": "PostgreSQL detaches no other while public.outbox_event_0 is half detached",
	})
	expect.Same(t, "done", prune(t, db, partitions(time.Hour, 0)), operate.Pruned{})
	pgtest.Exec(t, db, "UPDATE outbox_event_0 SET published_at = NULL WHERE id = 7")
	why := planPrune(t, db, partitions(time.Hour, 0)).Stranded["public.outbox_event_0"]
	got, err := newPruner(t, db).Prune(t.Context(), partitions(time.Hour, 0), nil)
	expect.Text(t, err, "public.outbox_event_0 holds unpublished events, which no relay reads", "FINALIZE; ALTER TABLE")
	expect.Same(t, "said", got.Stranded["public.outbox_event_0"], why)
	expect.Same(t, "partitions", partitionsOf(t, db), []string{"outbox_event_0 pending", "outbox_event_1", "outbox_event_2"})
	// What is said to do is what helps.
	_, sql, _ := strings.Cut(why, "to attach it again, ")
	for _, statement := range strings.Split(strings.TrimSuffix(sql, ";"), "; ") {
		pgtest.Exec(t, db, statement)
	}
	expect.Same(t, "unpublished", pgtest.One[int](t, db, `SELECT id FROM outbox_event WHERE published_at IS NULL`), 7)
}

// The run gave up, somebody brought the detach to its end and kept the table: it is his.
func TestATableThatSomebodyElseDetachedOrRenamedIsNeverDropped(t *testing.T) {
	t.Parallel()
	for what, keep := range map[string]string{
		"renamed":   "ALTER TABLE outbox_event_0 RENAME TO archive_2026_01",
		"moved":     "CREATE SCHEMA archive; ALTER TABLE outbox_event_0 SET SCHEMA archive",
		"as it was": "SELECT",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Partitioned(t, "id", "1..101", "101..10001")
			settledRows(t, db, 150, 3*time.Hour, "false")
			oid := pgtest.One[uint32](t, db, "SELECT 'outbox_event_0'::regclass::oid")
			end := holdOpen(t, db, "SELECT count(*) FROM outbox_event")
			if _, err := newPruner(t, db).Prune(t.Context(), partitions(time.Hour, 0), nil); err == nil {
				t.Fatal("nothing held it up: the test does not reach its case")
			}
			end()
			pgtest.Exec(t, db, "ALTER TABLE outbox_event DETACH PARTITION outbox_event_0 FINALIZE")
			pgtest.Exec(t, db, keep)
			for range 2 {
				plan := planPrune(t, db, partitions(time.Hour, 0))
				expect.Same(t, "the plan", plan.Pruned, operate.Pruned{})
				expect.Same(t, "done", prune(t, db, partitions(time.Hour, 0)), operate.Pruned{})
				if what == "as it was" && !strings.Contains(plan.Kept["public.outbox_event_0"], "it is not known that outbox prune has, so it is left alone") {
					t.Errorf("kept are %v", plan.Kept)
				}
			}
			expect.Same(t, "tables", pgtest.One[int](t, db, "SELECT count(*) FROM pg_class WHERE oid = $1::oid", oid), 1)
		})
	}
}

func TestARenamedTableWithUnpublishedEventsIsSaid(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..101", "101..10001")
	settledRows(t, db, 150, 3*time.Hour, "g = 50")
	detachNoted(t, db, "outbox_event_0")
	pgtest.Exec(t, db, "ALTER TABLE outbox_event_0 RENAME TO archive_2026_01")
	expect.Same(t, "the plan", len(planPrune(t, db, partitions(time.Hour, 0)).Stranded), 1)
	_, err := newPruner(t, db).Prune(t.Context(), partitions(time.Hour, 0), nil)
	expect.Text(t, err, "public.archive_2026_01 holds unpublished events", `ATTACH PARTITION "public"."archive_2026_01" FOR VALUES FROM ('1') TO ('101');`)
}

// A run that is killed leaves a table; the next one may be for older events only.
func TestADetachedPartitionIsDroppedByItsAge(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..101", "101..10001")
	settledRows(t, db, 150, 3*time.Hour, "false")
	pgtest.Exec(t, db, "COMMENT ON TABLE outbox_event_0 IS 'ours'")
	detachNoted(t, db, "outbox_event_0")
	expect.Same(t, "attached", prune(t, db, partitions(4*time.Hour, 0)), operate.Pruned{Attached: []string{"public.outbox_event_0"}})
	expect.Same(t, "comment", commentOf(t, db, "outbox_event_0"), "ours")
	expect.Same(t, "dropped", prune(t, db, partitions(time.Hour, 0)).Dropped, []string{"public.outbox_event_0"})
}

// A lock that does not come leaves nothing behind: whatever somebody makes of the partition later is not taken for ours.
func TestADetachThatIsRefusedLeavesNoNote(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..101", "101..10001")
	settledRows(t, db, 150, 3*time.Hour, "false")
	pgtest.Exec(t, db, "COMMENT ON TABLE outbox_event_0 IS 'ours'")
	// The partition is free for the note, and the table is not for the detach.
	holdOpen(t, db, "LOCK TABLE ONLY outbox_event IN SHARE UPDATE EXCLUSIVE MODE")
	if _, err := newPruner(t, db).Prune(t.Context(), partitions(time.Hour, 0), nil); operate.CodeOf(err) != operate.CodeTooSlow {
		t.Fatalf("got %v", err)
	}
	expect.Same(t, "partitions", partitionsOf(t, db), []string{"outbox_event_0", "outbox_event_1"})
	expect.Same(t, "comment", commentOf(t, db, "outbox_event_0"), "ours")
}

// Killed before it could detach, a run leaves its note on a partition; the next one takes it away.
func TestANoteOnAPartitionThatNobodyDetachesIsTakenAway(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..101", "101..10001")
	settledRows(t, db, 150, time.Hour, "false")
	pgtest.Exec(t, db, plainNote)
	expect.Same(t, "done", prune(t, db, partitions(2*time.Hour, 0)), operate.Pruned{})
	expect.Same(t, "comment", commentOf(t, db, "outbox_event_0"), "")
}

func TestRunsAtTheSameTimeWaitForEachOther(t *testing.T) {
	t.Parallel()
	var bounds []string
	for n := range 6 {
		bounds = append(bounds, fmt.Sprintf("%d..%d", 100*n+1, 100*n+101))
	}
	db := pgtest.Partitioned(t, "id", bounds...)
	settledRows(t, db, 6*100-50, 3*time.Hour, "false")
	var wg sync.WaitGroup
	var mu sync.Mutex
	dropped, created := 0, 0
	for range 3 {
		o := newPruner(t, db)
		wg.Go(func() {
			if _, err := o.PlanPrune(t.Context(), partitions(time.Hour, 5)); err != nil {
				t.Errorf("plan: %v", err)
			}
			got, err := o.Prune(t.Context(), partitions(time.Hour, 5), nil)
			if err != nil {
				t.Errorf("prune: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			dropped, created = dropped+len(got.Dropped), created+len(got.Created)
		})
	}
	wg.Wait()
	expect.Same(t, "dropped and created by all", []int{dropped, created}, []int{5, 5})
}

// A run that does not end is not waited for without end.
func TestARunThatIsAtWorkIsNamed(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..101")
	o := newPruner(t, db)
	row, err := o.db.Source(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, err := o.exclude(t.Context(), row, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	_, err = o.exclude(t.Context(), row, 0)
	expect.Text(t, err, "another run of outbox prune --partitions is at work on public.outbox_event")
	expect.Same(t, "its code", operate.CodeOf(err), operate.CodeConflict)
	first.release(t.Context())
	again, err := o.exclude(t.Context(), row, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, db, "SELECT pg_terminate_backend($1)", again.conn.PgConn().PID())
	if err := again.check(t.Context()); err == nil {
		t.Error("the lock is said to be held by a connection that is gone")
	}
	again.release(t.Context())
}
