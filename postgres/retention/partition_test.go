package retention

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/expect"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/operate"
)

func partitionsOf(t *testing.T, db *pgxpool.Pool) []string {
	t.Helper()
	return pgtest.One[[]string](t, db, `
SELECT array(SELECT inhrelid::regclass::text || CASE WHEN inhdetachpending THEN ' pending' ELSE '' END FROM pg_inherits
WHERE inhparent = 'outbox_event'::regclass ORDER BY inhrelid::regclass::text COLLATE "C")`)
}

func partitions(age time.Duration, ahead int) operate.Prune {
	return operate.Prune{Partitions: &operate.PrunePartitions{OlderThan: age, Ahead: ahead}}
}

func TestPartitionsByIDAreMadeAheadAndDroppedWhenAllOfThemIsOld(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..1001", "1001..2001", "2001..3001", "3001..4001")
	settledRows(t, db, 3000, 3*time.Hour, "g = 1500")
	settledRows(t, db, 500, time.Hour, "false")
	plan, err := newPruner(t, db).PlanPrune(t.Context(), partitions(2*time.Hour, 2))
	if err != nil {
		t.Fatal(err)
	}
	expect.Same(t, "kept", plan.Kept, map[string]string{"public.outbox_event_1": "it holds unpublished events"})
	want := operate.Pruned{
		Created: []string{"public.outbox_event_p4001", "public.outbox_event_p5001"},
		Dropped: []string{"public.outbox_event_0", "public.outbox_event_2"}, DroppedRows: plan.DroppedRows,
	}
	expect.Same(t, "the plan", plan.Pruned, want)
	got := prune(t, db, partitions(2*time.Hour, 2))
	want.DroppedRows = got.DroppedRows
	expect.Same(t, "done", got, want)
	expect.Same(t, "partitions", partitionsOf(t, db), []string{"outbox_event_1", "outbox_event_3", "outbox_event_p4001", "outbox_event_p5001"})
	expect.Same(t, "done again", prune(t, db, partitions(2*time.Hour, 2)), operate.Pruned{})
	expect.Same(t, "options", pgtest.One[[]string](t, db, `SELECT reloptions FROM pg_class WHERE relname = 'outbox_event_p4001'`), []string{"autovacuum_vacuum_scale_factor=0.02"})
	expect.Same(t, "unpublished", pgtest.One[int64](t, db, `SELECT min(id) FROM outbox_event WHERE published_at IS NULL`), int64(1500))
	// The new ones take rows.
	settledRows(t, db, 2000, time.Minute, "g % 2 = 0")
	expect.Same(t, "rows of a new one", pgtest.One[int](t, db, `SELECT count(*) FROM outbox_event_p4001`), 1000)
}

func TestPartitionsByTimeFollowTheCalendar(t *testing.T) {
	t.Parallel()
	month := func(n int) string { // of this month's first day, n months later
		now := time.Now().UTC()
		return time.Date(now.Year(), now.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	}
	db := pgtest.Partitioned(t, "created_at", month(-2)+".."+month(-1), month(-1)+".."+month(0), month(0)+".."+month(1))
	zoned := pgtest.Reconfigured(t, db, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["timezone"] = "America/New_York" })
	got := prune(t, zoned, partitions(time.Hour, 12))
	var want []string
	for n := range 12 {
		want = append(want, "public.outbox_event_p"+strings.ReplaceAll(month(n + 1)[:10], "-", ""))
	}
	expect.Same(t, "created", got.Created, want)
	expect.Same(t, "dropped", got.Dropped, []string{"public.outbox_event_0", "public.outbox_event_1"})
	expect.Same(t, "the end", pgtest.One[string](t, db, `SELECT to_char(max((regexp_match(pg_get_expr(relpartbound, oid), 'TO \(''([^'']*)''\)'))[1]::timestamptz) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
FROM pg_class WHERE relpartbound IS NOT NULL AND relkind = 'r'`), month(13))
}

// Nobody has pruned for long: the last partition has ended, and writers fail. One run makes what they need, and as many ahead as ever.
func TestPartitionsThatWereNotMadeInTimeAreMadeUpToThePresent(t *testing.T) {
	t.Parallel()
	day := func(n int) string {
		return time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, n).Format(time.RFC3339)
	}
	for column, c := range map[string]struct {
		bounds string
		want   int
	}{
		"created_at": {day(-41) + ".." + day(-40), 40 + 1 + 3},
		"id":         {"1..11", 39 + 1 + 3},
	} {
		t.Run(column, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Partitioned(t, column, c.bounds)
			// An INSERT that fails draws an id all the same.
			pgtest.Exec(t, db, "SELECT setval(pg_get_serial_sequence('outbox_event', 'id'), 404)")
			plan, err := newPruner(t, db).PlanPrune(t.Context(), partitions(time.Hour, 3))
			if err != nil {
				t.Fatal(err)
			}
			got := prune(t, db, partitions(time.Hour, 3))
			expect.Same(t, "created and planned", got.Created, plan.Created)
			// At midnight there is one day more.
			if n := len(got.Created); n != c.want && n != c.want+1 {
				t.Errorf("%d partitions were created, want %d", n, c.want)
			}
			settledRows(t, db, 1, 0, "true")
			expect.Same(t, "created again", len(prune(t, db, partitions(time.Hour, 3)).Created), 0)
		})
	}
}

// detachNoted leaves partitions as a run does that is killed between detaching and dropping them.
func detachNoted(t *testing.T, db *pgxpool.Pool, names ...string) {
	t.Helper()
	conn, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	d := definition{conn: conn.Conn(), db: loneConn{conn.Conn()}, row: pg.Source{Table: pg.Table{Schema: "public", Name: "outbox_event"}}}
	if d.parted, err = readPartitioning(t.Context(), conn.Conn(), d.row); err != nil {
		t.Fatal(err)
	}
	for _, part := range d.parted.parts {
		if !slices.Contains(names, part.name.Name) {
			continue
		}
		if err := d.note(t.Context(), conn, part, false); err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, db, "ALTER TABLE outbox_event DETACH PARTITION "+part.name.SQL()+" CONCURRENTLY")
		if err := d.note(t.Context(), conn, part, true); err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever is killed between detaching a partition and dropping it leaves a table that no relay reads. A late event in it goes out all the same.
func TestAPartitionThatAKilledRunLeftDetachedIsDroppedOrAttachedAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..101", "101..201", "201..301", "301..401")
	settledRows(t, db, 350, 3*time.Hour, "g = 150")
	detachNoted(t, db, "outbox_event_0", "outbox_event_1")
	// A table of somebody else has such a comment, too.
	pgtest.Exec(t, db, `CREATE TABLE other (); COMMENT ON TABLE other IS 'outbox prune detaches this: {"table":"elsewhere"}'`)
	got := prune(t, db, partitions(time.Hour, 0))
	expect.Same(t, "dropped", got.Dropped, []string{"public.outbox_event_0", "public.outbox_event_2"})
	expect.Same(t, "attached again", got.Attached, []string{"public.outbox_event_1"})
	expect.Same(t, "partitions", partitionsOf(t, db), []string{"outbox_event_1", "outbox_event_3"})
	expect.Same(t, "unpublished", pgtest.One[int64](t, db, `SELECT min(id) FROM outbox_event WHERE published_at IS NULL`), int64(150))
	expect.Same(t, "comments", pgtest.One[int](t, db, `SELECT count(*) FROM pg_description WHERE description LIKE 'outbox prune detaches%'`), 1)
}

// The command asks for the plan first, and does nothing where that is empty: what a killed run has left must be in it, though nothing else is to be done.
func TestThePlanHasWhatAKilledRunLeft(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..101", "101..201", "201..10001")
	settledRows(t, db, 250, 3*time.Hour, "g = 150")
	detachNoted(t, db, "outbox_event_0", "outbox_event_1")
	plan, err := newPruner(t, db).PlanPrune(t.Context(), partitions(time.Hour, 0))
	if err != nil {
		t.Fatal(err)
	}
	got := prune(t, db, partitions(time.Hour, 0))
	expect.Same(t, "dropped and planned", [][]string{got.Dropped, plan.Dropped}, [][]string{{"public.outbox_event_0"}, {"public.outbox_event_0"}})
	expect.Same(t, "attached again and planned", [][]string{got.Attached, plan.Attached}, [][]string{{"public.outbox_event_1"}, {"public.outbox_event_1"}})
	plan, err = newPruner(t, db).PlanPrune(t.Context(), partitions(time.Hour, 0))
	if err != nil {
		t.Fatal(err)
	}
	expect.Same(t, "what is left to do", plan.Pruned, operate.Pruned{})
}

func TestAPartitionLongPastIsNotFollowedUpToThePresent(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "created_at", "2020-01-01 00:00Z..2020-01-01 01:00Z")
	_, err := newPruner(t, db).Prune(t.Context(), partitions(time.Hour, 3), nil)
	if err == nil || !strings.Contains(err.Error(), "make one that holds the present by hand") {
		t.Errorf("got %v, want to be told to make a partition", err)
	}
}

func TestAPartitionStaysWhileATransactionThatWroteToItIsOpen(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "created_at", "2020-01-01 00:00Z..2020-02-01 00:00Z", "2020-02-01 00:00Z..2120-01-01 00:00Z")
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Rollback(tx)
	if _, err := tx.Exec(t.Context(), `
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at)
VALUES (gen_random_uuid(), 'Order', '1', 'order.confirmed.v1', '{}', 'orders', '1', '2020-01-10')`); err != nil {
		t.Fatal(err)
	}
	o := newPruner(t, db)
	plan, err := o.PlanPrune(t.Context(), partitions(time.Hour, 0))
	if err != nil {
		t.Fatal(err)
	}
	expect.Same(t, "kept", plan.Kept, map[string]string{"public.outbox_event_0": "a transaction that may have written to it is open"})
	expect.Same(t, "done", prune(t, db, partitions(time.Hour, 0)), operate.Pruned{})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect.Same(t, "done", prune(t, db, partitions(time.Hour, 0)), operate.Pruned{})
	pgtest.Exec(t, db, `UPDATE outbox_event SET published_at = now() - interval '2 hours'`)
	expect.Same(t, "dropped", prune(t, db, partitions(time.Hour, 0)).Dropped, []string{"public.outbox_event_0"})
}

// A reader that is open for long holds detaching up. It is given up, writers go on all the while, and the next run brings it to its end.
func TestDetachingThatWasInterruptedIsFinished(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..101", "101..201", "201..10001")
	settledRows(t, db, 250, 3*time.Hour, "false")
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Rollback(tx)
	if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM outbox_event`); err != nil {
		t.Fatal(err)
	}
	_, err = newPruner(t, db).Prune(t.Context(), partitions(time.Hour, 0), nil)
	expect.Text(t, err, "has been open for too long")
	expect.Same(t, "code", operate.CodeOf(err), operate.CodeTooSlow)
	if left := partitionsOf(t, db); !slices.Contains(left, "outbox_event_0 pending") {
		t.Fatalf("partitions are %v, want one that is half detached: the test does not reach its case", left)
	}
	plan, err := newPruner(t, db).PlanPrune(t.Context(), partitions(4*time.Hour, 0))
	if err != nil {
		t.Fatal(err)
	}
	expect.Same(t, "planned where it is too young", plan.Attached, []string{"public.outbox_event_0"})
	settledRows(t, db, 10, 0, "true")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect.Same(t, "dropped", prune(t, db, partitions(time.Hour, 0)).Dropped, []string{"public.outbox_event_0", "public.outbox_event_1"})
	expect.Same(t, "left", holds(t, db), "50 settled, 10 unpublished")
}

func TestAnUnpublishedEventThatCameWhileDetachingBringsThePartitionBack(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "id", "1..101", "101..10001")
	settledRows(t, db, 150, 3*time.Hour, "false")
	pgtest.Exec(t, db, `ALTER TABLE outbox_event DETACH PARTITION outbox_event_0`)
	pgtest.Exec(t, db, `UPDATE outbox_event_0 SET published_at = NULL WHERE id = 7`)
	o := newPruner(t, db)
	conn, err := o.definer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	row, err := o.db.Source(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := newPruning(o.db, row)
	d := definition{conn: conn, db: loneConn{conn}, row: row, p: p}
	part := partition{name: pg.Table{Schema: "public", Name: "outbox_event_0"}, from: "1", to: "101", oid: pgtest.One[uint32](t, db, "SELECT 'outbox_event_0'::regclass::oid")}
	if err := d.discard(t.Context(), part); err != nil {
		t.Fatal(err)
	}
	expect.Same(t, "dropped", len(p.total.Dropped), 0)
	expect.Same(t, "unpublished", pgtest.One[int](t, db, `SELECT id FROM outbox_event WHERE published_at IS NULL`), 7)
}

func TestTablesThatAreNotPartitionedInAKnownWayAreRefused(t *testing.T) {
	t.Parallel()
	_, err := newPruner(t, pgtest.New(t).Pool(t)).PlanPrune(t.Context(), partitions(0, 0))
	expect.Text(t, err, "is not partitioned", "docs/partitions.md")
	db := pgtest.Partitioned(t, "id", "1..101", "101..201")
	pgtest.Exec(t, db, `CREATE TABLE rest PARTITION OF outbox_event DEFAULT`)
	settledRows(t, db, 150, 3*time.Hour, "false")
	plan, err := newPruner(t, db).PlanPrune(t.Context(), partitions(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	expect.Text(t, fmt.Errorf("%s", plan.Kept["public.outbox_event_0"]), "default partition")
	least := pgtest.AsRelay(t, db, "UPDATE (published_at)")
	pgtest.Exec(t, db, "GRANT SELECT, INSERT, UPDATE ON outbox.retention TO "+least.Config().ConnConfig.User)
	_, err = newPruner(t, least).Prune(t.Context(), partitions(0, 3), nil)
	expect.Text(t, err, "owner of public.outbox_event")
}

// Rows are also deleted one by one of a table with partitions.
func TestPruningWorksOnAPartitionedTable(t *testing.T) {
	t.Parallel()
	db := pgtest.Partitioned(t, "created_at", "2020-01-01 00:00Z..2021-01-01 00:00Z", "2021-01-01 00:00Z..2120-01-01 00:00Z")
	settledRows(t, db, 7000, 3*time.Hour, "g % 7 = 0")
	pgtest.Exec(t, db, `UPDATE outbox_event SET created_at = '2020-05-05' WHERE id % 3 = 0`)
	expect.Same(t, "pruned", prune(t, db, events(time.Hour, 500)).Events, int64(5500))
	expect.Same(t, "left", holds(t, db), "500 settled, 1000 unpublished")
}
