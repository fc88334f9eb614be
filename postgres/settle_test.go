package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

var orders = relay.Key{Topic: "order-service.order.confirmed", PartitionKey: "order-1"}

func settle(t *testing.T, s *Source, refs []relay.Ref) int {
	t.Helper()
	n, err := s.Settle(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSettleMarksExactlyWhatItIsGiven(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	refs := insert(t, db, orders, 5)
	given := []relay.Ref{refs[3], refs[0], refs[1]}
	same(t, "settled", settle(t, s, given), 3)
	same(t, "the caller's refs afterwards", given, []relay.Ref{refs[3], refs[0], refs[1]})
	same(t, "published ids", published(t, db), []int64{refs[0].ID, refs[1].ID, refs[3].ID})
	same(t, "settled of nothing", settle(t, s, nil), 0)
}

func TestSettleDeletesWhenConfigured(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{Settle: Delete})
	refs := insert(t, db, orders, 3)
	same(t, "settled", settle(t, s, refs[:2]), 2)
	same(t, "ids left", queryOne[[]int64](t, db, `SELECT array(SELECT id FROM outbox_event)`), []int64{refs[2].ID})
}

func TestSettleCountsWhatSomebodyElseHasSettled(t *testing.T) {
	t.Parallel()
	for _, mode := range []SettleMode{Mark, Delete} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			s := openSource(t, db, Config{Settle: mode})
			refs := insert(t, db, orders, 3)
			exec(t, db, `UPDATE outbox_event SET published_at = '2020-01-01' WHERE id = $1`, refs[1].ID)
			same(t, "settled", settle(t, s, refs), 2)
			same(t, "settled again", settle(t, s, refs), 0)
			same(t, "the foreign mark", queryOne[string](t, db, `
SELECT (published_at AT TIME ZONE 'UTC')::date::text FROM outbox_event WHERE id = $1`, refs[1].ID), "2020-01-01")
		})
	}
}

// An id is issued again after a crash or a RESTART; the settle that was meant for the first row must not reach the second.
func TestSettleLeavesARowWithAnIssuedAgainIDAlone(t *testing.T) {
	t.Parallel()
	for _, mode := range []SettleMode{Mark, Delete} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			s := openSource(t, db, Config{Settle: mode})
			refs := insert(t, db, orders, 1)
			same(t, "settled", settle(t, s, []relay.Ref{{ID: refs[0].ID, EventID: uuid.New()}}), 0)
			same(t, "unpublished", queryOne[int](t, db, `SELECT count(*) FROM outbox_event WHERE published_at IS NULL`), 1)
		})
	}
}

// A relay that lost its lease while it waited for an ack settles late (BL-080): the event is in Kafka, so that is right.
// Nobody may edit an unpublished row. The settle does not notice it, unless it is another event now.
func TestSettleOfARowThatWasEditedInFlight(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	refs := insert(t, db, orders, 2)
	exec(t, db, `UPDATE outbox_event SET payload = '{"edited": true}', topic = 'elsewhere', partition_key = 'another' WHERE id = $1`, refs[0].ID)
	exec(t, db, `UPDATE outbox_event SET event_id = gen_random_uuid() WHERE id = $1`, refs[1].ID)
	same(t, "settled", settle(t, s, refs), 1)
	same(t, "published ids", published(t, db), []int64{refs[0].ID})
}

func TestSettleOfAZombieIsHarmless(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	refs := insert(t, db, orders, 4)
	claim(t, a, owner("a"))
	expire(t, db)
	claim(t, b, owner("b"))
	same(t, "settled by the new owner", settle(t, b, refs[:3]), 3)
	before := queryOne[[]string](t, db, `SELECT array(SELECT published_at::text FROM outbox_event WHERE published_at IS NOT NULL ORDER BY id)`)
	same(t, "settled by the old owner", settle(t, a, refs), 1)
	after := queryOne[[]string](t, db, `SELECT array(SELECT published_at::text FROM outbox_event ORDER BY id)`)
	same(t, "the first three marks", after[:3], before)
}

func TestTheFirstSettleIsWrittenDownOnce(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	const first = `SELECT coalesce(first_published_at::text, '') FROM outbox.source`
	same(t, "first_published_at before", queryOne[string](t, db, first), "")
	refs := insert(t, db, orders, 2)
	settle(t, s, refs[:1])
	at := queryOne[string](t, db, first)
	if at == "" {
		t.Fatal("first_published_at is not set after the first settle")
	}
	settle(t, s, refs[1:])
	same(t, "first_published_at after the second settle", queryOne[string](t, db, first), at)
	info, err := newSource(t, db, Config{}).Open(t.Context())
	if err != nil || info.FirstPublished.IsZero() {
		t.Errorf("Open = %+v, %v; want FirstPublished set", info, err)
	}
}

// Two settlers of the same rows, given in opposite orders, must not deadlock (BL-102).
func TestSettlersOfTheSameRowsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	refs := bulkInsert(t, db, 2000)
	reversed := slices.Clone(refs)
	slices.Reverse(reversed)
	counts := make(chan int, 2)
	errs := make(chan error, 2)
	for _, given := range [][]relay.Ref{refs, reversed} {
		s := openSource(t, db, Config{})
		go func() {
			n, err := s.Settle(t.Context(), given)
			counts <- n
			errs <- err
		}()
	}
	same(t, "settled by both", <-counts+<-counts, 2000)
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	same(t, "deadlocks", queryOne[int](t, db, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`), 0)
}

// A database's stricter default must not reach the relay (BL-101).
func TestSettleWorksWhereSerializableIsTheDefault(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, fmt.Sprintf(`ALTER DATABASE %s SET default_transaction_isolation = 'serializable'`,
		pgx.Identifier{db.Config().ConnConfig.Database}.Sanitize()))
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	refs := insert(t, db, orders, 3)
	c := claim(t, a, owner("a"))
	settle(t, a, refs[:1])
	if err := a.Renew(t.Context(), c, ttl); err != nil {
		t.Error(err)
	}
	if err := parkOne(t.Context(), a, c, parked(orders, refs[1])); err != nil {
		t.Error(err)
	}
	if held, err := b.Claim(t.Context(), owner("b"), ttl, relay.Claim{}); err != nil || len(held.Lanes) > 0 {
		t.Errorf("Claim = %+v, %v; want it not held", held, err)
	}
	for _, session := range a.term() {
		err := session.Run(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
			var isolation string
			err := conn.QueryRow(ctx, `SHOW default_transaction_isolation`).Scan(&isolation)
			same(t, "isolation of the "+session.name, isolation, "read committed")
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// bulkInsert writes n events of n keys in one statement.
func bulkInsert(t *testing.T, db *pgxpool.Pool, n int) []relay.Ref {
	t.Helper()
	rows, err := db.Query(t.Context(), `
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', i::text, 'order.confirmed.v1', '{"a": 1}', $1, i::text FROM generate_series(1, $2::int) i
RETURNING id, event_id`, orders.Topic, n)
	if err != nil {
		t.Fatal(err)
	}
	refs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[relay.Ref])
	if err != nil {
		t.Fatal(err)
	}
	return refs
}

// A settle looks each row up, whatever the planner believed when it planned: here that the table is empty.
func TestSettleNeverScansTheTable(t *testing.T) {
	t.Parallel()
	for _, mode := range []SettleMode{Mark, Delete} {
		for _, analyzed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, analyzed %t", mode, analyzed), func(t *testing.T) {
				t.Parallel()
				db := newDatabase(t)
				exec(t, db, `ALTER TABLE outbox_event SET (autovacuum_enabled = off)`)
				s := openSource(t, db, Config{Settle: mode})
				few := insert(t, db, orders, 20)
				for i := range 8 {
					settle(t, s, few[i:i+1])
				}
				refs := bulkInsert(t, db, 200_000)
				if analyzed {
					exec(t, db, `ANALYZE outbox_event`)
				}
				scans := func() int {
					exec(t, db, `SELECT pg_stat_clear_snapshot()`)
					return queryOne[int](t, db, `SELECT seq_scan::int FROM pg_stat_user_tables WHERE relname = 'outbox_event'`)
				}
				before := scans()
				same(t, "settled", settle(t, s, refs[:10]), 10)
				same(t, "settled", settle(t, s, refs[1000:11_000]), 10_000)
				for _, n := range []int{10, 10_000} {
					plan := settlePlan(t, s, refs[20_000:20_000+n])
					if strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "Index Cond: (id = ANY") {
						t.Errorf("plan of a settle of %d:\n%.500s", n, plan)
					}
				}
				s.Close()
				eventually(t, "the statistics of the ended sessions", func() bool { return settledIn(t, db) >= 10_010 })
				same(t, "scans of the whole table by settles", scans()-before, 0)
			})
		}
	}
}

// settledIn returns how many rows of the table the statistics know to be updated or deleted.
func settledIn(t *testing.T, db *pgxpool.Pool) int {
	return queryOne[int](t, db, `SELECT (n_tup_upd + n_tup_del)::int FROM pg_stat_user_tables WHERE relname = 'outbox_event'`)
}

// settlePlan returns the plan that the settler's own statement gets in its own session.
func settlePlan(t *testing.T, s *Source, refs []relay.Ref) string {
	t.Helper()
	st := s.open.Load().settler
	ids, eventIDs := columnsOf(refs)
	var plan string
	err := pg.InTx(t.Context(), s.settle, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, plainPlan); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, "EXPLAIN "+st.sql, ids, eventIDs)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		plan = strings.Join(lines, "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
