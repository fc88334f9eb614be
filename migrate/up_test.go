package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
)

func TestUpMakesTheContractAndIsIdempotent(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	c := db.Conn(t)
	first := mustUp(t, c, migrate.Config{})
	if len(first.Applied) == 0 || !first.TableCreated || !first.SourceCreated || first.Lanes != 8 || first.Delivery != migrate.AtLeastOnce {
		t.Errorf("the first call did %+v", first)
	}
	if ds := mustCheck(t, c, "outbox_event"); ds != nil {
		t.Errorf("the table that was made differs from the contract: %v", ds)
	}
	if n := scan[int](t, c, "SELECT count(*) FROM outbox.lane WHERE source = $1 AND lane BETWEEN 0 AND 7", first.Source); n != 8 {
		t.Errorf("%d lanes, want 0 to 7", n)
	}
	before := catalog(t, c)
	second := mustUp(t, c, migrate.Config{})
	if len(second.Applied) != 0 || second.TableCreated || second.SourceCreated || second.Source != first.Source {
		t.Errorf("the second call did %+v", second)
	}
	diffLines(t, "the second call changed the catalog", catalog(t, c), before)
}

// Sixteen processes start on an empty database at the same moment (BL-109: IF NOT EXISTS is not atomic across sessions).
func TestSixteenAtOnceAllSucceedAndEachStepHappensOnce(t *testing.T) {
	t.Parallel()
	for name, setting := range map[string]string{
		"defaults":          "SELECT 1",
		"strict isolation":  "ALTER DATABASE %s SET default_transaction_isolation = 'serializable'",
		"read only default": "ALTER DATABASE %s SET default_transaction_read_only = on",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t, pgtest.Empty)
			db.Exec(t, strings.ReplaceAll(setting, "%s", db.Name))
			all, err := migrate.All()
			if err != nil {
				t.Fatal(err)
			}
			applied, tables, sources := 0, 0, 0
			for _, r := range upAtOnce(t, db, 16) {
				applied += len(r.Applied)
				tables += count(r.TableCreated)
				sources += count(r.SourceCreated)
			}
			if applied != len(all) || tables != 1 || sources != 1 {
				t.Errorf("applied %d of %d migrations, made %d tables and %d sources", applied, len(all), tables, sources)
			}
		})
	}
}

func count(done bool) int {
	if done {
		return 1
	}
	return 0
}

func upAtOnce(t *testing.T, db *pgtest.DB, n int) []migrate.Result {
	t.Helper()
	results, errs := make([]migrate.Result, n), make([]error, n)
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		c := db.Conn(t)
		wg.Go(func() {
			<-begin
			results[i], errs[i] = migrate.Up(t.Context(), c, migrate.Config{})
		})
	}
	close(begin)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return results
}

func TestAnyNameWorksAndNamesStayApart(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	c := db.Conn(t)
	long := strings.Repeat("x", 62)
	sources := map[string]bool{}
	names := []string{
		"OutBox Event", "order-outbox", "user", `a"b`, long + "1", long + "2", `"Order-Svc"."OutBox Event"`, `"my.schema"."$do$ 'x' %s"`,
		`x"; DROP SCHEMA outbox CASCADE; --`,
	}
	for _, name := range names {
		r := mustUp(t, c, migrate.Config{Table: name})
		sources[r.Source.String()] = true
		if ds := mustCheck(t, c, name); ds != nil {
			t.Errorf("%s: %v", name, ds)
		}
		mustExec(t, c, `INSERT INTO `+r.Table.SQL()+` (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
			VALUES (gen_random_uuid(), 'Order', '1', 'order.confirmed.v1', '{}', 't', '1')`)
	}
	if len(sources) != len(names) {
		t.Errorf("%d sources for %d tables", len(sources), len(names))
	}
}

// A locked-down database: no rights on public, an owner that is no superuser (BL-105).
func TestUpNeedsNothingOfPublic(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	admin := db.Conn(t)
	role := makeRole(t, db, admin)
	mustExec(t, admin, "REVOKE ALL ON SCHEMA public FROM PUBLIC; GRANT CREATE ON DATABASE "+db.Name+" TO "+role)
	c := connectAs(t, db, role)
	config := migrate.Config{Table: `"Order-Svc".outbox_event`}
	mustUp(t, c, config)
	mustUp(t, c, config)
	if n := scan[int](t, admin, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"); n != 0 {
		t.Errorf("%d relations were made in public", n)
	}
	st, err := migrate.GetStatus(t.Context(), c, config)
	if err != nil || st.Err() != nil {
		t.Errorf("status: %v, %v", err, st.Err())
	}
}

// A table of the same name in another schema must not be taken for this one (BL-103).
func TestATableInAnotherSchemaDoesNotCount(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	c := db.Conn(t)
	mustUp(t, c, migrate.Config{Table: "a.outbox_event"})
	if r := mustUp(t, c, migrate.Config{Table: "b.outbox_event"}); !r.TableCreated || !r.SourceCreated {
		t.Errorf("the second table: %+v", r)
	}
	mustExec(t, c, "ALTER TABLE a.outbox_event DROP COLUMN topic; SET search_path TO a")
	if ds := mustCheck(t, c, "b.outbox_event"); ds != nil {
		t.Errorf("a difference of a.outbox_event is reported for b.outbox_event: %v", ds)
	}
	if got := codes(mustCheck(t, c, "a.outbox_event")); len(got) != 1 || got[0] != "e:column-missing" {
		t.Errorf("a.outbox_event: %v", got)
	}
}

func TestTheLanesAndDeliveryOfASourceAreNotChanged(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	c := db.Conn(t)
	mustUp(t, c, migrate.Config{Lanes: 3})
	mustExec(t, c, "UPDATE outbox.source SET delivery = 'exactly-once'")
	if r := mustUp(t, c, migrate.Config{}); r.Lanes != 3 || r.Delivery != migrate.ExactlyOnce {
		t.Errorf("without a wish: %+v", r)
	}
	_, err := migrate.Up(t.Context(), c, migrate.Config{Lanes: 4, Delivery: migrate.AtLeastOnce})
	if err == nil || !strings.Contains(err.Error(), "has 3 lanes already, not 4; to change the number, stop all relays of the table and run: outbox lanes set 4 --table") ||
		!strings.Contains(err.Error(), "exactly-once already, not at-least-once; changing the mode is not in this version") {
		t.Errorf("other lanes and delivery: %v", err)
	}
	if n := scan[int](t, c, "SELECT count(*) FROM outbox.lane"); n != 3 {
		t.Errorf("%d lanes, want 3", n)
	}
}

func TestExactlyOnceIsRefused(t *testing.T) {
	t.Parallel()
	_, err := migrate.Print(migrate.Config{Delivery: migrate.ExactlyOnce})
	if err == nil || !strings.Contains(err.Error(), "delivery exactly-once: not in this version") {
		t.Errorf("error %v", err)
	}
}

func TestAnImpossibleConfigurationIsRefusedWhole(t *testing.T) {
	t.Parallel()
	_, err := migrate.Up(t.Context(), nil, migrate.Config{Table: "outbox.x", Lanes: 2000, Delivery: "maybe", LockTimeout: time.Nanosecond})
	for _, part := range []string{"relay's own", "lanes 2000", `delivery "maybe"`, "lock timeout 1ns"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

// Traffic is never made to queue behind a migration for longer than the lock timeout (BL-107).
func TestUpGivesWayToTrafficAndTriesAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	holder, err := db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "LOCK TABLE outbox.source IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	up := make(chan error, 1)
	migrator := db.Conn(t)
	go func() {
		_, err := migrate.Up(t.Context(), migrator, migrate.Config{LockTimeout: 20 * time.Millisecond})
		up <- err
	}()
	watcher := db.Conn(t)
	pid := migrator.PgConn().PID()
	waiting := `SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)`
	for _, want := range []bool{true, false, true} {
		until(t, "the migration waits for the lock, gives way, and comes back", func() bool { return scan[bool](t, watcher, waiting, pid) == want })
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-up; err != nil {
		t.Error(err)
	}
}

func TestUpGivesUpWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	holder, err := db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback(context.Background())
	if _, err := holder.Exec(t.Context(), "LOCK TABLE outbox.source IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := migrate.Up(ctx, db.Conn(t), migrate.Config{LockTimeout: 10 * time.Millisecond}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("want the end of the context, got %v", err)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(await.Limit)
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("never: %s", what)
		default:
		}
	}
}

func makeRole(t *testing.T, db *pgtest.DB, admin *pgx.Conn) string {
	t.Helper()
	role := "role_" + db.Name
	mustExec(t, admin, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() {
		c, err := pgx.Connect(context.Background(), db.URL)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close(context.Background())
		if _, err := c.Exec(context.Background(), "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	return role
}

// connectAs works with the rights of the role, as a login of its own would; it needs no password of it.
func connectAs(t *testing.T, db *pgtest.DB, role string) *pgx.Conn {
	t.Helper()
	c := db.Conn(t)
	mustExec(t, c, "SET SESSION AUTHORIZATION "+role)
	return c
}

func TestANewTableDoesNotHideTheEventsOfOneThatWasRenamed(t *testing.T) {
	t.Parallel()
	c := pgtest.New(t, pgtest.Empty).Conn(t)
	mustUp(t, c, migrate.Config{})
	mustExec(t, c, `ALTER TABLE outbox_event RENAME TO "old events"`)
	old := migrate.Table{Schema: "public", Name: "old events"}
	st, err := migrate.GetStatus(t.Context(), c, migrate.Config{})
	if err != nil || len(st.Sources) != 1 || !st.Sources[0].Gone || st.Sources[0].Renamed != old {
		t.Errorf("the sources are %+v, %v; want one that was renamed to %s", st.Sources, err, old)
	}
	mustExec(t, c, `INSERT INTO "old events" (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		VALUES (gen_random_uuid(), 'order', '1', 'e', '{}', 't', 'k')`)
	_, err = migrate.Up(t.Context(), c, migrate.Config{})
	if err == nil || !strings.Contains(err.Error(), "it was renamed to "+old.String()) || !strings.Contains(err.Error(), `ALTER TABLE "public"."old events" RENAME TO`) {
		t.Fatalf("beside a table with events: %v", err)
	}
	if n := scan[int](t, c, "SELECT count(*) FROM pg_class WHERE relname = 'outbox_event'"); n != 0 {
		t.Error("a refused migration has made a table")
	}
	mustExec(t, c, `UPDATE "old events" SET published_at = now()`)
	if r := mustUp(t, c, migrate.Config{}); !r.TableCreated || r.Renamed != old {
		t.Errorf("beside a table that has run dry it did %+v", r)
	}
	if ds := mustCheck(t, c, "outbox_event"); ds != nil {
		t.Errorf("the new table, whose index's name is taken, differs from the contract: %v", ds)
	}
	mustExec(t, c, `DROP TABLE outbox_event; UPDATE "old events" SET published_at = NULL`)
	if r := mustUp(t, c, migrate.Config{NewTable: true}); !r.TableCreated || r.Renamed != old {
		t.Errorf("with agreement it did %+v", r)
	}
}

func TestWhoeverMigratesAtTheSameTimeIsNamed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	other := db.Conn(t)
	mustExec(t, other, "SET application_name = 'the other one'")
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", migrate.AdvisoryLock); err != nil {
		t.Fatal(err)
	}
	var said []string
	r, err := migrate.Up(t.Context(), db.Conn(t), migrate.Config{Waiting: func(what string) {
		said = append(said, what)
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}})
	if err != nil || !r.TableCreated {
		t.Fatalf("the migration did %+v, %v", r, err)
	}
	pid := fmt.Sprintf("process %d of", other.PgConn().PID())
	if len(said) != 1 || !strings.Contains(said[0], pid) || !strings.Contains(said[0], `"the other one"`) {
		t.Errorf("said %q, want once %q and its application", said, pid)
	}
}
