package retention

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/expect"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// settledRows writes n events so old, published as they were written, but those for which the condition on g is true.
func settledRows(t *testing.T, db *pgxpool.Pool, n int, old time.Duration, unpublished string) {
	t.Helper()
	pgtest.Exec(t, db, `
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at, published_at)
SELECT gen_random_uuid(), 'Order', g::text, 'order.confirmed.v1', '{}', 'orders', g::text, at, CASE WHEN NOT (`+unpublished+`) THEN at END
FROM generate_series(1, $1::int) g, (SELECT now() - $2::bigint * interval '1 microsecond' AS at) a`, n, old.Microseconds())
}

func events(older time.Duration, keep int64) operate.Prune {
	return operate.Prune{Events: &operate.PruneEvents{OlderThan: older, Keep: keep}}
}

func newPruner(t *testing.T, db *pgxpool.Pool) *Pruner {
	t.Helper()
	p, err := NewPruner(db, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func prune(t *testing.T, db *pgxpool.Pool, request operate.Prune) operate.Pruned {
	t.Helper()
	pruned, err := newPruner(t, db).Prune(t.Context(), request, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pruned
}

func holds(t *testing.T, db *pgxpool.Pool) string {
	t.Helper()
	return pgtest.One[string](t, db, `SELECT format('%s settled, %s unpublished', count(published_at), count(*) - count(published_at)) FROM outbox_event`)
}

// BL-112: a relay was down for longer than events are kept; what it has not published stays.
func TestPruningLooksAtTheStateAndNotAtTheAge(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	week := 7 * 24 * time.Hour
	settledRows(t, db, 20_000, week+time.Hour, "g % 2 = 0")
	settledRows(t, db, 100, week-time.Hour, "g % 2 = 0")
	plan, err := newPruner(t, db).PlanPrune(t.Context(), events(week, 0))
	if err != nil {
		t.Fatal(err)
	}
	expect.Same(t, "the plan", plan.Pruned, operate.Pruned{Events: 10_000})
	expect.Same(t, "before", holds(t, db), "10050 settled, 10050 unpublished")
	expect.Same(t, "pruned", prune(t, db, events(week, 0)), operate.Pruned{Events: 10_000})
	expect.Same(t, "after", holds(t, db), "50 settled, 10050 unpublished")
	expect.Same(t, "pruned again", prune(t, db, events(week, 0)), operate.Pruned{})
}

func TestTheNewestSettledEventsAreKept(t *testing.T) {
	t.Parallel()
	for keep, want := range map[int64]string{
		0: "0 settled, 3000 unpublished", 1: "1 settled, 3000 unpublished", 2999: "2999 settled, 3000 unpublished",
		8999: "8999 settled, 3000 unpublished", 9000: "9000 settled, 3000 unpublished", 9001: "9000 settled, 3000 unpublished",
	} {
		t.Run(fmt.Sprint(keep), func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t).Pool(t)
			settledRows(t, db, 12_000, time.Hour, "g % 4 = 0")
			newest := pgtest.One[int64](t, db, `SELECT coalesce(min(id), 0) FROM (SELECT id FROM outbox_event WHERE published_at IS NOT NULL ORDER BY id DESC LIMIT $1) e`, keep)
			prune(t, db, events(0, keep))
			expect.Same(t, "left", holds(t, db), want)
			expect.Same(t, "older ones left", pgtest.One[int64](t, db, `SELECT count(*) FROM outbox_event WHERE published_at IS NOT NULL AND id < $1`, newest), 0)
		})
	}
}

func TestAnEventMustBeOldAndNotAmongTheNewestToGo(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 50, 3*time.Hour, "false")
	settledRows(t, db, 50, time.Hour, "false")
	expect.Same(t, "pruned", prune(t, db, events(2*time.Hour, 80)).Events, 20)
	expect.Same(t, "pruned", prune(t, db, events(2*time.Hour, 10)).Events, 30)
}

// What a model deletes of a random history is deleted, and nothing else.
func TestOnlySettledAndOldEventsAreDeletedWhateverTheHistory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 5))
			db := pgtest.New(t).Pool(t)
			for range 3 + random.IntN(5) {
				settledRows(t, db, 1+random.IntN(4000), time.Duration(random.IntN(100))*time.Hour, fmt.Sprintf("hashint4(g + %d) %% %d = 0", random.IntN(1000), 1+random.IntN(9)))
				pgtest.Exec(t, db, `SELECT setval('outbox_event_id_seq', nextval('outbox_event_id_seq') + $1)`, random.Int64N(1<<(1+random.IntN(40))))
			}
			// They settle in another order than that of their ids; some ages lie in the future, or nowhere.
			pgtest.Exec(t, db, `UPDATE outbox_event SET published_at = published_at + (hashint8(id) % 50) * interval '1 hour' WHERE published_at IS NOT NULL`)
			pgtest.Exec(t, db, `UPDATE outbox_event SET published_at = 'infinity' WHERE published_at IS NOT NULL AND hashint8(id) % 997 = 0`)
			pgtest.Exec(t, db, `UPDATE outbox_event SET created_at = 'infinity' WHERE hashint8(id) % 991 = 0`)
			pgtest.Exec(t, db, `DELETE FROM outbox_event WHERE hashint8(id) % 5 = 0`)
			age, keep := time.Duration(random.IntN(100))*time.Hour, random.Int64N(3000)*int64(random.IntN(2))
			pgtest.Exec(t, db, `
CREATE TABLE expected AS SELECT id, published_at IS NOT NULL AND (published_at < now() - $1::bigint * interval '1 microsecond' OR $1 = 0)
    AND rank() OVER (PARTITION BY published_at IS NOT NULL ORDER BY id DESC) > $2::bigint AS goes FROM outbox_event`, age.Microseconds(), keep)
			pruned := prune(t, db, events(age, keep))
			expect.Same(t, "deleted", pruned.Events, pgtest.One[int64](t, db, `SELECT count(*) FROM expected WHERE goes`))
			expect.Same(t, "wrong", pgtest.One[int64](t, db, `SELECT count(*) FROM expected x LEFT JOIN outbox_event e USING (id) WHERE goes <> (e.id IS NULL)`), 0)
		})
	}
}

func TestRowsThatAreLockedAreSkipped(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 100, time.Hour, "false")
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM outbox_event WHERE id IN (3, 50) FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	expect.Same(t, "pruned", prune(t, db, events(0, 0)), operate.Pruned{Events: 98, Skipped: 2})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect.Same(t, "pruned", prune(t, db, events(0, 0)), operate.Pruned{Events: 2})
}

// What another prune had locked, and has deleted by the end, was not left.
func TestWhatAnotherPruneDeletesIsNotCountedAsLeft(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 100, time.Hour, "false")
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Rollback(tx)
	if _, err := tx.Exec(t.Context(), `DELETE FROM outbox_event WHERE id IN (3, 50)`); err != nil {
		t.Fatal(err)
	}
	var meanwhile int64
	pruned, err := newPruner(t, db).Prune(t.Context(), events(0, 0), func(p operate.Pruned) {
		if meanwhile == 0 {
			meanwhile = p.Skipped
			if err := tx.Commit(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	expect.Same(t, "left meanwhile", meanwhile, 2)
	expect.Same(t, "pruned", pruned, operate.Pruned{Events: 98})
}

// slowDelete makes every deleted row cost 2 ms, so that a page of thousands exceeds the limit of 200 ms that the role has (BL-114).
func slowDelete(t *testing.T, db *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	pgtest.Exec(t, db, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.002); RETURN OLD; END $$`)
	pgtest.Exec(t, db, `CREATE TRIGGER slow BEFORE DELETE ON outbox_event FOR EACH ROW EXECUTE FUNCTION slow()`)
	return pgtest.Reconfigured(t, db, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["statement_timeout"] = "200" })
}

func TestPagesShrinkUntilTheyFitIntoTheStatementTimeout(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 1000, time.Hour, "g % 10 = 0")
	expect.Same(t, "pruned", prune(t, slowDelete(t, db), events(0, 0)), operate.Pruned{Events: 900})
	expect.Same(t, "after", holds(t, db), "0 settled, 100 unpublished")
}

func TestRowsThatAreRefusedArePassed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 2000, time.Hour, "false")
	pgtest.Exec(t, db, `CREATE TABLE keeps (event bigint REFERENCES outbox_event)`)
	pgtest.Exec(t, db, `INSERT INTO keeps VALUES (1), (1000), (1001)`)
	expect.Same(t, "pruned", prune(t, db, events(0, 0)), operate.Pruned{Events: 1997, Skipped: 3})
	expect.Same(t, "left", pgtest.One[[]int64](t, db, `SELECT array(SELECT id FROM outbox_event ORDER BY id)`), []int64{1, 1000, 1001})
}

func TestAWalkOfWhichEveryRowIsRefusedIsGivenUp(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 200, time.Hour, "false")
	pgtest.Exec(t, db, `CREATE TABLE keeps (event bigint REFERENCES outbox_event)`)
	pgtest.Exec(t, db, `INSERT INTO keeps SELECT id FROM outbox_event`)
	pruned, err := newPruner(t, db).Prune(t.Context(), events(0, 0), nil)
	expect.Text(t, err, "single ids in a row", "keeps")
	expect.Same(t, "pruned", pruned, operate.Pruned{Skipped: pruneStuck})
}

func TestDeadEventsAuditRequestsAndJobsHaveAgesOfTheirOwn(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	source := pgtest.One[string](t, db, `SELECT id::text FROM outbox.source`)
	for _, sql := range []string{
		`INSERT INTO outbox.dead_event (source, id, event_id, topic, partition_key, lane, event, code, reason, died_by, died_at)
SELECT $1::uuid, g % 3000, gen_random_uuid(), 't', 'k', 0, '{}', 'c', 'r', 'me', now() - g * interval '1 hour' + interval '30 minutes' FROM generate_series(1, 6000) g`,
		`INSERT INTO outbox.audit (source, at, actor, verb, ended_at)
SELECT $1::uuid, now() - g * interval '1 hour' + interval '30 minutes', 'me', 'skip', CASE WHEN g % 2 = 0 THEN now() - g * interval '1 hour' + interval '30 minutes' END FROM generate_series(1, 6000) g`,
		`INSERT INTO outbox.request (source, verb, topic, partition_key, requested_by, requested_at, done_at)
SELECT $1::uuid, 'skip', 't', 'k', 'me', now() - interval '1 year', CASE WHEN g % 2 = 0 THEN now() - g * interval '1 hour' + interval '30 minutes' END FROM generate_series(1, 6000) g`,
		`INSERT INTO outbox.job (source, verb, actor, total, state, started_at, ended_at)
SELECT $1::uuid, 'skip', 'me', 1, CASE WHEN g % 2 = 0 THEN 'done' ELSE 'running' END, now() - interval '1 year', CASE WHEN g % 2 = 0 THEN now() - g * interval '1 hour' + interval '30 minutes' END FROM generate_series(1, 6000) g`,
	} {
		pgtest.Exec(t, db, sql, source)
	}
	// They are those of another source.
	pgtest.Exec(t, db, `INSERT INTO outbox.source (id, table_schema, table_name) VALUES ('00000000-0000-0000-0000-000000000001', 'other', 'other')`)
	pgtest.Exec(t, db, `INSERT INTO outbox.audit (source, at, actor, verb) SELECT '00000000-0000-0000-0000-000000000001', now() - interval '1 year', 'me', 'skip' FROM generate_series(1, 10)`)
	settledRows(t, db, 100, time.Hour, "false")
	hours := func(n time.Duration) *time.Duration { n *= time.Hour; return &n }
	request := operate.Prune{Dead: hours(3000), Audit: hours(1500)}
	want := operate.Pruned{Dead: 3000, Audit: 4500, Requests: 2250, Jobs: 2250}
	plan, err := newPruner(t, db).PlanPrune(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	expect.Same(t, "the plan", plan.Pruned, want)
	expect.Same(t, "pruned", prune(t, db, request), want)
	expect.Same(t, "running jobs", pgtest.One[int](t, db, `SELECT count(*) FROM outbox.job WHERE state = 'running'`), 3000)
	expect.Same(t, "open requests", pgtest.One[int](t, db, `SELECT count(*) FROM outbox.request WHERE done_at IS NULL`), 3000)
	expect.Same(t, "rows of the other source", pgtest.One[int](t, db, `SELECT count(*) FROM outbox.audit WHERE source = '00000000-0000-0000-0000-000000000001'`), 10)
	expect.Same(t, "events", holds(t, db), "100 settled, 0 unpublished")
}

func TestPruningWithoutTheRightNamesTheGrants(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 10, time.Hour, "false")
	least := pgtest.AsRelay(t, db, "UPDATE (published_at)")
	_, err := newPruner(t, least).Prune(t.Context(), events(0, 0), nil)
	expect.Text(t, err, "outbox migrate grants --table public.outbox_event --role", "--delete", `"public"."outbox_event"`)
	expect.Same(t, "code", operate.CodeOf(err), operate.CodeForbidden)
	if !errors.Is(err, relay.ErrConfiguration) {
		t.Errorf("%v is not relay.ErrConfiguration", err)
	}
	expect.Same(t, "after", holds(t, db), "10 settled, 0 unpublished")
}

func TestACancelledPruningTellsWhatItHasDone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 4*prunePage, time.Hour, "false")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pruned, err := newPruner(t, db).Prune(ctx, events(0, 0), func(p operate.Pruned) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want one of cancelling", err)
	}
	expect.Same(t, "pruned", pruned, operate.Pruned{Events: prunePage})
	expect.Same(t, "left", holds(t, db), fmt.Sprintf("%d settled, 0 unpublished", 3*prunePage))
	expect.Same(t, "written down", pgtest.One[int](t, db, `SELECT pruned FROM outbox.retention`), prunePage)
}

// Ids that lie far apart, below zero, and at the end of what there is.
func TestAWalkCrossesGapsOfAnySize(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 6, time.Hour, "false")
	for i, id := range []int64{-1 << 62, -5, 1 << 40, 1 << 62, 1<<63 - 1} {
		pgtest.Exec(t, db, `ALTER TABLE outbox_event ALTER COLUMN id DROP IDENTITY IF EXISTS`)
		pgtest.Exec(t, db, `UPDATE outbox_event SET id = $1 WHERE id = $2`, id, i+2)
	}
	expect.Same(t, "pruned", prune(t, db, events(0, 0)), operate.Pruned{Events: 6})
}

func TestTheRestOfALongCountIsEstimated(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 40_000, 3*time.Hour, "g % 4 = 0")
	settledRows(t, db, 20_000, time.Hour, "false")
	o := newPruner(t, db)
	row, err := o.db.Source(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := newPruning(o.db, row)
	looks := 0
	clock := time.Now()
	p.now = func() time.Time { looks++; return clock.Add(time.Duration(looks) * time.Millisecond) }
	n, estimated, err := p.countEvents(t.Context(), operate.PruneEvents{OlderThan: 2 * time.Hour}, 5*time.Millisecond)
	if err != nil || !estimated || n < 29_000 || n > 31_000 {
		t.Errorf("counted %d, estimated %t, %v; want about 30,000, estimated", n, estimated, err)
	}
}
