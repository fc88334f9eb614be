package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/lanesql"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// parkMany parks n keys, each at its only event, and asks for a verb on all of them: on the keys, or on the events.
func parkMany(t testing.TB, db *pgxpool.Pool, n int, verb string, onEvents bool) {
	t.Helper()
	for _, sql := range []string{`
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', g::text, 'order.confirmed.v1', '{}', 'order-service.order.confirmed', 'order-' || g FROM generate_series(1, $1::int) g`,
		`
INSERT INTO outbox.parked_key (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason)
SELECT s.id, e.topic, ` + pg.KeyHashSQL("e.topic", "e.partition_key") + `, e.partition_key, ` + lanesql.Of("e.partition_key", "8") + `, e.id, e.event_id, e.event_type, 'MESSAGE_TOO_LARGE', 'too large'
FROM outbox_event e, outbox.source s WHERE $1 > 0`,
	} {
		if _, err := db.Exec(t.Context(), sql, n); err != nil {
			t.Fatal(err)
		}
	}
	askAll(t, db, verb, onEvents)
}

// askAll writes down a request for each parked key.
func askAll(t testing.TB, db *pgxpool.Pool, verb string, onEvents bool) {
	t.Helper()
	_, err := db.Exec(t.Context(), `
INSERT INTO outbox.request (source, verb, topic, partition_key, id_of_event, event_id, requested_by, reason)
SELECT source, $1, topic, partition_key, CASE WHEN $2 THEN id END, CASE WHEN $2 THEN event_id END, 'ann', 'an incident' FROM outbox.parked_key ORDER BY id`, verb, onEvents)
	if err != nil {
		t.Fatal(err)
	}
}

// counter counts statements of every kind, a batch's one by one.
type counter struct{ n atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// carryOutAll carries out everything that is open and returns how many calls it took.
func carryOutAll(t testing.TB, s *Source, c relay.Claim) (done, released, calls int) {
	t.Helper()
	for more := true; more; calls++ {
		got, err := s.Requests(t.Context(), c, always)
		if err != nil {
			t.Fatal(err)
		}
		done, released, more = done+got.Done, released+len(got.Released), got.More
	}
	return done, released, calls
}

// A hundred times as many requests must not cost a hundred times as many statements.
func TestManyRequestsTakeFewStatements(t *testing.T) {
	t.Parallel()
	const keys = 4000
	for _, c := range []struct {
		verb     string
		onEvents bool
	}{{VerbUnpark, false}, {VerbRetry, true}, {VerbSkip, true}, {VerbDead, false}} {
		t.Run(c.verb, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			parkMany(t, db, keys, c.verb, c.onEvents)
			count := &counter{}
			s := openSource(t, reconfigured(t, db, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = count }), Config{})
			mine := claim(t, s, owner("a"))
			before := count.n.Load()
			done, released, calls := carryOutAll(t, s, mine)
			statements := count.n.Load() - before
			same(t, "done and released", []int{done, released}, []int{keys, keys})
			if limit := int64(16 * calls); statements > limit || statements == 0 || calls > 10 {
				t.Errorf("%d requests took %d statements in %d batches; want at most %d in 10", keys, statements, calls, limit)
			}
			same(t, "open requests", openRequestCount(t, db), 0)
			same(t, "requests with an error", queryOne[int](t, db, `SELECT count(*) FROM outbox.request WHERE error IS NOT NULL`), 0)
			same(t, "parked keys", queryOne[int](t, db, `SELECT count(*) FROM outbox.parked_key`), 0)
			given := 0
			if c.verb == VerbSkip || c.verb == VerbDead {
				given = keys
			}
			same(t, "dead events", queryOne[int](t, db, `SELECT count(*) FROM outbox.dead_event`), given)
			same(t, "events", queryOne[int](t, db, `SELECT count(*) FROM outbox_event`), keys-given)
		})
	}
}

// What is in flight for long, at the head of the list, keeps nothing behind it waiting.
func TestRequestsThatAreNotReadyKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	const keys = 3 * firstBatch
	db := newDatabase(t)
	parkMany(t, db, keys, VerbUnpark, false)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	last := fmt.Sprintf("order-%d", keys)
	onlyLast := func(asked []relay.Key) (idle []relay.Key) {
		for _, key := range asked {
			if key.PartitionKey == last {
				idle = append(idle, key)
			}
		}
		return idle
	}
	var released []relay.Key
	for more := true; more; {
		done, err := s.Requests(t.Context(), c, onlyLast)
		if err != nil {
			t.Fatal(err)
		}
		released, more = append(released, done.Released...), done.More
	}
	same(t, "released", released, []relay.Key{{Topic: orders.Topic, PartitionKey: last}})
	done, _, _ := carryOutAll(t, s, c)
	same(t, "done when they are ready", done, keys-1)
}

// One row that the server refuses must not keep the others of its batch from being carried out.
func TestABadRowFailsAlone(t *testing.T) {
	t.Parallel()
	const keys = 100
	db := newDatabase(t)
	parkMany(t, db, keys, VerbSkip, true)
	exec(t, db, `
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF old.partition_key IN ('order-7', 'order-50') THEN RAISE EXCEPTION 'order % is kept', old.partition_key; END IF;
    RETURN old;
END $$`)
	exec(t, db, `CREATE TRIGGER keep BEFORE DELETE ON outbox_event FOR EACH ROW EXECUTE FUNCTION keep()`)
	s := openSource(t, db, Config{})
	done, released, _ := carryOutAll(t, s, claim(t, s, owner("a")))
	same(t, "done and released", []int{done, released}, []int{keys, keys - 2})
	same(t, "refused", queryOne[[]string](t, db, `SELECT array(SELECT outcome || ' ' || partition_key FROM outbox.request WHERE error LIKE '%is kept%' ORDER BY id)`),
		[]string{"refused order-7", "refused order-50"})
	same(t, "dead events", queryOne[int](t, db, `SELECT count(*) FROM outbox.dead_event`), keys-2)
}

// A trigger that returns NULL keeps the row without a word.
func TestARowThatTheTableKeepsIsRefused(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	parkMany(t, db, 2, VerbDead, true)
	exec(t, db, `CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF old.id = 1 THEN RETURN NULL; END IF; RETURN old; END $$`)
	exec(t, db, `CREATE TRIGGER keep BEFORE DELETE ON outbox_event FOR EACH ROW EXECUTE FUNCTION keep()`)
	s := openSource(t, db, Config{})
	carryOutAll(t, s, claim(t, s, owner("a")))
	wantText(t, textError(queryOne[string](t, db, `SELECT error FROM outbox.request WHERE id_of_event = 1`)), "a trigger, or row-level security, lets no DELETE through")
	same(t, "dead events", queryOne[[]int64](t, db, `SELECT array(SELECT id FROM outbox.dead_event)`), []int64{2})
}

// A row that somebody has locked stays for later, and the lanes are not kept locked for it.
func TestALockedRowStaysForLater(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	parkMany(t, db, 3, VerbSkip, true)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Rollback(tx)
	if _, err := tx.Exec(t.Context(), `SELECT FROM outbox_event WHERE id = 2 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	done, _, _ := carryOutAll(t, s, c)
	same(t, "done while the row is locked", done, 2)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	done, _, _ = carryOutAll(t, s, c)
	same(t, "done afterwards", done, 1)
}

// Requests of different verbs for one key keep their order; a batch of many keys needs few stages.
func TestStagesKeepTheOrderOfAKey(t *testing.T) {
	t.Parallel()
	a, b := relay.Key{Topic: "t", PartitionKey: "a"}, relay.Key{Topic: "t", PartitionKey: "b"}
	one, two := &relay.Ref{ID: 1}, &relay.Ref{ID: 2}
	rs := []request{
		{id: 1, verb: VerbSkip, key: a, event: one}, {id: 2, verb: VerbSkip, key: b}, {id: 3, verb: VerbRestore, key: a, event: one}, {id: 4, verb: VerbSkip, key: a, event: two},
		{id: 5, verb: VerbRestore, key: b, event: two}, {id: 6, verb: VerbRestore, key: b, event: two}, {id: 7, verb: VerbSkip, key: b},
	}
	var got [][]int
	for _, st := range stages(rs) {
		got = append(got, st.members)
	}
	same(t, "stages", got, [][]int{{0, 1}, {2, 4}, {3}, {5}, {6}})
}

// The size of a batch follows the time that batches take: lanes are locked meanwhile.
func TestTheSizeOfABatchFollowsItsTime(t *testing.T) {
	t.Parallel()
	size := newRequests(nil, pg.Source{}).size
	for _, step := range []struct {
		took time.Duration
		full bool
		want pace
	}{{time.Millisecond, true, 1000}, {time.Millisecond, false, 1000}, {500 * time.Millisecond, true, 1000}, {2 * time.Second, true, 250}, {time.Millisecond, true, 500}} {
		size.learn(step.took, step.full)
		same(t, "size", size, step.want)
	}
	for range 20 {
		size.learn(time.Minute, true)
	}
	same(t, "smallest", size, pace(1))
	for range 20 {
		size.learn(0, true)
	}
	same(t, "largest", size, pace(largestBatch))
}

// The statement that moves events must go by index with no statistics, with old ones and with fresh ones.
func TestGivingUpNeverScansTheTable(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, `ALTER TABLE outbox_event SET (autovacuum_enabled = off)`)
	parkMany(t, db, 30_000, VerbSkip, true)
	row := pg.Source{Table: pg.Table{Schema: "public", Name: "outbox_event"}, Lanes: 8}
	args := buryArgs(row, make([]death, 2000))
	for _, state := range []string{"SELECT 1", "ANALYZE outbox_event", "UPDATE outbox_event SET published_at = now() WHERE id < 29000"} {
		exec(t, db, state)
		var plan []string
		err := pg.InTx(t.Context(), pg.OnPool(db), func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, batchSettings); err != nil {
				return err
			}
			rows, err := tx.Query(ctx, "EXPLAIN "+fmt.Sprintf(burySQL, row.Table.SQL(), "to_jsonb(t)"), args...)
			if err != nil {
				return err
			}
			plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); strings.Contains(text, "Seq Scan on outbox_event") {
			t.Errorf("after %s it scans the table:\n%s", state, text)
		}
	}
}
