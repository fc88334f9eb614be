package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// partitionedDatabase makes the table as docs/partitions.md does, with the first partitions that the test names.
func partitionedDatabase(t *testing.T, column string, bounds ...string) *pgxpool.Pool {
	t.Helper()
	db := pgtest.New(t, pgtest.Empty)
	unique := "UNIQUE (event_id, " + column + "), PRIMARY KEY (id)"
	if column != "id" {
		unique = "UNIQUE (event_id, " + column + "), PRIMARY KEY (id, " + column + ")"
	}
	db.Exec(t, `
CREATE TABLE outbox_event (
    id bigint GENERATED ALWAYS AS IDENTITY, event_id uuid NOT NULL, aggregate_type text NOT NULL, aggregate_id text NOT NULL, event_type text NOT NULL,
    payload jsonb NOT NULL, topic text NOT NULL, partition_key text NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz, `+unique+`
) PARTITION BY RANGE (`+column+`);
CREATE INDEX ix_outbox_event_unpublished ON outbox_event (id) WHERE published_at IS NULL;`)
	for i, b := range bounds {
		low, high, _ := strings.Cut(b, "..")
		db.Exec(t, fmt.Sprintf(`CREATE TABLE outbox_event_%d PARTITION OF outbox_event FOR VALUES FROM ('%s') TO ('%s') WITH (autovacuum_vacuum_scale_factor=0.02)`, i, low, high))
	}
	if _, err := migrate.Up(t.Context(), db.Conn(t), migrate.Config{}); err != nil {
		t.Fatal(err)
	}
	return db.Pool(t)
}

func partitionsOf(t *testing.T, db *pgxpool.Pool) []string {
	t.Helper()
	return queryOne[[]string](t, db, `
SELECT array(SELECT inhrelid::regclass::text || CASE WHEN inhdetachpending THEN ' pending' ELSE '' END FROM pg_inherits
WHERE inhparent = 'outbox_event'::regclass ORDER BY inhrelid::regclass::text COLLATE "C")`)
}

func partitions(age time.Duration, ahead int) operate.Prune {
	return operate.Prune{Partitions: &operate.PrunePartitions{OlderThan: age, Ahead: ahead}}
}

func TestPartitionsByIDAreMadeAheadAndDroppedWhenAllOfThemIsOld(t *testing.T) {
	t.Parallel()
	db := partitionedDatabase(t, "id", "1..1001", "1001..2001", "2001..3001", "3001..4001")
	settledRows(t, db, 3000, 3*time.Hour, "g = 1500")
	settledRows(t, db, 500, time.Hour, "false")
	plan, err := newOperator(t, db).PlanPrune(t.Context(), partitions(2*time.Hour, 2))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "kept", plan.Kept, map[string]string{"public.outbox_event_1": "it holds unpublished events"})
	want := operate.Pruned{
		Created: []string{"public.outbox_event_p4001", "public.outbox_event_p5001"},
		Dropped: []string{"public.outbox_event_0", "public.outbox_event_2"}, DroppedRows: plan.DroppedRows,
	}
	same(t, "the plan", plan.Pruned, want)
	got := prune(t, db, partitions(2*time.Hour, 2))
	want.DroppedRows = got.DroppedRows
	same(t, "done", got, want)
	same(t, "partitions", partitionsOf(t, db), []string{"outbox_event_1", "outbox_event_3", "outbox_event_p4001", "outbox_event_p5001"})
	same(t, "done again", prune(t, db, partitions(2*time.Hour, 2)), operate.Pruned{})
	same(t, "options", queryOne[[]string](t, db, `SELECT reloptions FROM pg_class WHERE relname = 'outbox_event_p4001'`), []string{"autovacuum_vacuum_scale_factor=0.02"})
	same(t, "unpublished", queryOne[int64](t, db, `SELECT min(id) FROM outbox_event WHERE published_at IS NULL`), int64(1500))
	// The new ones take rows.
	settledRows(t, db, 2000, time.Minute, "g % 2 = 0")
	same(t, "rows of a new one", queryOne[int](t, db, `SELECT count(*) FROM outbox_event_p4001`), 1000)
}

func TestPartitionsByTimeFollowTheCalendar(t *testing.T) {
	t.Parallel()
	month := func(n int) string { // of this month's first day, n months later
		now := time.Now().UTC()
		return time.Date(now.Year(), now.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	}
	db := partitionedDatabase(t, "created_at", month(-2)+".."+month(-1), month(-1)+".."+month(0), month(0)+".."+month(1))
	zoned := reconfigured(t, db, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["timezone"] = "America/New_York" })
	got := prune(t, zoned, partitions(time.Hour, 12))
	var want []string
	for n := range 12 {
		want = append(want, "public.outbox_event_p"+strings.ReplaceAll(month(n + 1)[:10], "-", ""))
	}
	same(t, "created", got.Created, want)
	same(t, "dropped", got.Dropped, []string{"public.outbox_event_0", "public.outbox_event_1"})
	same(t, "the end", queryOne[string](t, db, `SELECT to_char(max((regexp_match(pg_get_expr(relpartbound, oid), 'TO \(''([^'']*)''\)'))[1]::timestamptz) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
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
			db := partitionedDatabase(t, column, c.bounds)
			// An INSERT that fails draws an id all the same.
			exec(t, db, "SELECT setval(pg_get_serial_sequence('outbox_event', 'id'), 404)")
			plan, err := newOperator(t, db).PlanPrune(t.Context(), partitions(time.Hour, 3))
			if err != nil {
				t.Fatal(err)
			}
			got := prune(t, db, partitions(time.Hour, 3))
			same(t, "created and planned", got.Created, plan.Created)
			// At midnight there is one day more.
			if n := len(got.Created); n != c.want && n != c.want+1 {
				t.Errorf("%d partitions were created, want %d", n, c.want)
			}
			insert(t, db, orders, 1)
			same(t, "created again", len(prune(t, db, partitions(time.Hour, 3)).Created), 0)
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
		exec(t, db, "ALTER TABLE outbox_event DETACH PARTITION "+part.name.SQL()+" CONCURRENTLY")
		if err := d.note(t.Context(), conn, part, true); err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever is killed between detaching a partition and dropping it leaves a table that no relay reads. A late event in it goes out all the same.
func TestAPartitionThatAKilledRunLeftDetachedIsDroppedOrAttachedAgain(t *testing.T) {
	t.Parallel()
	db := partitionedDatabase(t, "id", "1..101", "101..201", "201..301", "301..401")
	settledRows(t, db, 350, 3*time.Hour, "g = 150")
	detachNoted(t, db, "outbox_event_0", "outbox_event_1")
	// A table of somebody else has such a comment, too.
	exec(t, db, `CREATE TABLE other (); COMMENT ON TABLE other IS 'outbox prune detaches this: {"table":"elsewhere"}'`)
	got := prune(t, db, partitions(time.Hour, 0))
	same(t, "dropped", got.Dropped, []string{"public.outbox_event_0", "public.outbox_event_2"})
	same(t, "attached again", got.Attached, []string{"public.outbox_event_1"})
	same(t, "partitions", partitionsOf(t, db), []string{"outbox_event_1", "outbox_event_3"})
	same(t, "unpublished", queryOne[int64](t, db, `SELECT min(id) FROM outbox_event WHERE published_at IS NULL`), int64(150))
	same(t, "comments", queryOne[int](t, db, `SELECT count(*) FROM pg_description WHERE description LIKE 'outbox prune detaches%'`), 1)
}

// The command asks for the plan first, and does nothing where that is empty: what a killed run has left must be in it, though nothing else is to be done.
func TestThePlanHasWhatAKilledRunLeft(t *testing.T) {
	t.Parallel()
	db := partitionedDatabase(t, "id", "1..101", "101..201", "201..10001")
	settledRows(t, db, 250, 3*time.Hour, "g = 150")
	detachNoted(t, db, "outbox_event_0", "outbox_event_1")
	plan, err := newOperator(t, db).PlanPrune(t.Context(), partitions(time.Hour, 0))
	if err != nil {
		t.Fatal(err)
	}
	got := prune(t, db, partitions(time.Hour, 0))
	same(t, "dropped and planned", [][]string{got.Dropped, plan.Dropped}, [][]string{{"public.outbox_event_0"}, {"public.outbox_event_0"}})
	same(t, "attached again and planned", [][]string{got.Attached, plan.Attached}, [][]string{{"public.outbox_event_1"}, {"public.outbox_event_1"}})
	plan, err = newOperator(t, db).PlanPrune(t.Context(), partitions(time.Hour, 0))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what is left to do", plan.Pruned, operate.Pruned{})
}

func TestAPartitionLongPastIsNotFollowedUpToThePresent(t *testing.T) {
	t.Parallel()
	db := partitionedDatabase(t, "created_at", "2020-01-01 00:00Z..2020-01-01 01:00Z")
	_, err := newOperator(t, db).Prune(t.Context(), partitions(time.Hour, 3), nil)
	if err == nil || !strings.Contains(err.Error(), "make one that holds the present by hand") {
		t.Errorf("got %v, want to be told to make a partition", err)
	}
}

func TestAPartitionStaysWhileATransactionThatWroteToItIsOpen(t *testing.T) {
	t.Parallel()
	db := partitionedDatabase(t, "created_at", "2020-01-01 00:00Z..2020-02-01 00:00Z", "2020-02-01 00:00Z..2120-01-01 00:00Z")
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
	o := newOperator(t, db)
	plan, err := o.PlanPrune(t.Context(), partitions(time.Hour, 0))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "kept", plan.Kept, map[string]string{"public.outbox_event_0": "a transaction that may have written to it is open"})
	same(t, "done", prune(t, db, partitions(time.Hour, 0)), operate.Pruned{})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "done", prune(t, db, partitions(time.Hour, 0)), operate.Pruned{})
	exec(t, db, `UPDATE outbox_event SET published_at = now() - interval '2 hours'`)
	same(t, "dropped", prune(t, db, partitions(time.Hour, 0)).Dropped, []string{"public.outbox_event_0"})
}

// A reader that is open for long holds detaching up. It is given up, writers go on all the while, and the next run brings it to its end.
func TestDetachingThatWasInterruptedIsFinished(t *testing.T) {
	t.Parallel()
	db := partitionedDatabase(t, "id", "1..101", "101..201", "201..10001")
	settledRows(t, db, 250, 3*time.Hour, "false")
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Rollback(tx)
	if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM outbox_event`); err != nil {
		t.Fatal(err)
	}
	_, err = newOperator(t, db).Prune(t.Context(), partitions(time.Hour, 0), nil)
	wantText(t, err, "has been open for too long")
	same(t, "code", operate.CodeOf(err), operate.CodeTooSlow)
	if left := partitionsOf(t, db); !slices.Contains(left, "outbox_event_0 pending") {
		t.Fatalf("partitions are %v, want one that is half detached: the test does not reach its case", left)
	}
	plan, err := newOperator(t, db).PlanPrune(t.Context(), partitions(4*time.Hour, 0))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "planned where it is too young", plan.Attached, []string{"public.outbox_event_0"})
	settledRows(t, db, 10, 0, "true")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "dropped", prune(t, db, partitions(time.Hour, 0)).Dropped, []string{"public.outbox_event_0", "public.outbox_event_1"})
	same(t, "left", holds(t, db), "50 settled, 10 unpublished")
}

func TestAnUnpublishedEventThatCameWhileDetachingBringsThePartitionBack(t *testing.T) {
	t.Parallel()
	db := partitionedDatabase(t, "id", "1..101", "101..10001")
	settledRows(t, db, 150, 3*time.Hour, "false")
	exec(t, db, `ALTER TABLE outbox_event DETACH PARTITION outbox_event_0`)
	exec(t, db, `UPDATE outbox_event_0 SET published_at = NULL WHERE id = 7`)
	o := newOperator(t, db)
	conn, err := o.definer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	row, err := o.source(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := newPruning(o.db, row)
	d := definition{conn: conn, db: loneConn{conn}, row: row, p: p}
	part := partition{name: pg.Table{Schema: "public", Name: "outbox_event_0"}, from: "1", to: "101", oid: queryOne[uint32](t, db, "SELECT 'outbox_event_0'::regclass::oid")}
	if err := d.discard(t.Context(), part); err != nil {
		t.Fatal(err)
	}
	same(t, "dropped", len(p.total.Dropped), 0)
	same(t, "unpublished", queryOne[int](t, db, `SELECT id FROM outbox_event WHERE published_at IS NULL`), 7)
}

func TestTablesThatAreNotPartitionedInAKnownWayAreRefused(t *testing.T) {
	t.Parallel()
	_, err := newOperator(t, newDatabase(t)).PlanPrune(t.Context(), partitions(0, 0))
	wantText(t, err, "is not partitioned", "docs/partitions.md")
	db := partitionedDatabase(t, "id", "1..101", "101..201")
	exec(t, db, `CREATE TABLE rest PARTITION OF outbox_event DEFAULT`)
	settledRows(t, db, 150, 3*time.Hour, "false")
	plan, err := newOperator(t, db).PlanPrune(t.Context(), partitions(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, fmt.Errorf("%s", plan.Kept["public.outbox_event_0"]), "default partition")
	least := leastRights(t, db, Config{})
	exec(t, db, "GRANT SELECT, INSERT, UPDATE ON outbox.retention TO "+least.Config().ConnConfig.User)
	_, err = newOperator(t, least).Prune(t.Context(), partitions(0, 3), nil)
	wantText(t, err, "owner of public.outbox_event")
}

// Rows are also deleted one by one of a table with partitions.
func TestPruningWorksOnAPartitionedTable(t *testing.T) {
	t.Parallel()
	db := partitionedDatabase(t, "created_at", "2020-01-01 00:00Z..2021-01-01 00:00Z", "2021-01-01 00:00Z..2120-01-01 00:00Z")
	settledRows(t, db, 7000, 3*time.Hour, "g % 7 = 0")
	exec(t, db, `UPDATE outbox_event SET created_at = '2020-05-05' WHERE id % 3 = 0`)
	same(t, "pruned", prune(t, db, events(time.Hour, 500)).Events, int64(5500))
	same(t, "left", holds(t, db), "500 settled, 1000 unpublished")
}

// A reader and a settler work on while partitions come and go: each event is read once, and marked.
func TestPartitionsComeAndGoWhileARelayWorks(t *testing.T) {
	t.Parallel()
	db := partitionedDatabase(t, "id", "1..51")
	s := openSource(t, db, Config{})
	claim(t, s, owner("a"))
	if err := s.Start(t.Context(), nobodyHeld{}, allLanes); err != nil {
		t.Fatal(err)
	}
	dropped := make(chan int, 1)
	stop := make(chan struct{})
	o := newOperator(t, db)
	prune(t, db, partitions(0, 8))
	go func() {
		n := 0
		defer func() { dropped <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			pruned, err := o.Prune(t.Context(), partitions(0, 8), nil)
			if err != nil {
				t.Error(err)
				return
			}
			n += len(pruned.Dropped)
		}
	}()
	const rounds, each = 30, 20
	read := map[int64]bool{}
	take := func() {
		b, err := s.Read(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		var refs []relay.Ref
		for _, e := range b.Events {
			if read[e.ID] {
				t.Errorf("event %d is read twice", e.ID)
			}
			read[e.ID] = true
			refs = append(refs, relay.Ref{ID: e.ID, EventID: e.EventID})
		}
		if len(refs) > 0 {
			same(t, "settled", settle(t, s, refs), len(refs))
		}
	}
	written := 0
	for range rounds {
		written += len(insert(t, db, orders, each))
		take()
		// A partition ahead has to be there for the next round.
		eventually(t, "there is room", func() bool {
			return queryOne[bool](t, db, `SELECT count(*) >= 2 FROM pg_class WHERE relispartition AND relkind = 'r' AND
    (regexp_match(pg_get_expr(relpartbound, oid), 'FROM \(''([0-9]+)''\)'))[1]::bigint > (SELECT last_value FROM outbox_event_id_seq)`)
		})
	}
	eventually(t, "all are read", func() bool { take(); return len(read) == written })
	close(stop)
	if n := <-dropped; n < rounds*each/50/2 {
		t.Errorf("%d partitions were dropped, want most of %d", n, rounds*each/50)
	}
	same(t, "unpublished", queryOne[int](t, db, `SELECT count(*) FROM outbox_event WHERE published_at IS NULL`), 0)
}
