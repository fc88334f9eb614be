package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// oneConn runs everything in the transaction that is open on one connection.
type oneConn struct{ conn *pgx.Conn }

func (o oneConn) Run(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	return fn(ctx, o.conn)
}

// As a rule nothing is unpublished when a table is analyzed, and nothing parked. When a backlog comes the planner still expects a row of it where there are many
// thousands: whatever names events must not go through all of them.
func TestStatisticsFromBeforeABacklogCostNothing(t *testing.T) {
	t.Parallel()
	const backlog, named = 20_000, 50
	db := newDatabase(t)
	for _, table := range []string{"outbox_event", "outbox.parked_key", "outbox.failure", "outbox.dead_event", "outbox.request"} {
		exec(t, db, "ALTER TABLE "+table+" SET (autovacuum_enabled = off)")
	}
	parkMany(t, db, 2000, VerbSkip, true)
	for _, sql := range []string{
		"UPDATE outbox_event SET published_at = now()",
		`INSERT INTO outbox.failure (source, id, event_id, topic, partition_key, lane, attempts, last_error)
SELECT source, id, event_id, topic, partition_key, lane, 1, 'no' FROM outbox.parked_key`,
		"VACUUM ANALYZE",
		"TRUNCATE outbox_event RESTART IDENTITY", "DELETE FROM outbox.failure", "DELETE FROM outbox.request", "DELETE FROM outbox.parked_key",
		"VACUUM",
	} {
		exec(t, db, sql)
	}
	parkMany(t, db, backlog, VerbSkip, true)
	exec(t, db, `
INSERT INTO outbox.failure (source, id, event_id, topic, partition_key, lane, attempts, last_error, next_attempt_at)
SELECT source, id, event_id, topic, partition_key, lane, 1, 'no', now() + interval '1 h' FROM outbox.parked_key`)
	row := pg.Source{ID: queryOne[uuid.UUID](t, db, "SELECT id FROM outbox.source"), Table: pg.Table{Schema: "public", Name: "outbox_event"}, Lanes: 8}
	refs, parked, deaths, rs := namedEvents(t, db, named)

	pool, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Release()
	conn := pool.Conn()
	settle := func(mode SettleMode) func(context.Context, pgx.Tx) (int, error) {
		return func(ctx context.Context, _ pgx.Tx) (int, error) {
			return newSettler(oneConn{conn}, row, mode).Settle(ctx, refs)
		}
	}
	verb := func(verb string) func(context.Context, pgx.Tx) (int, error) {
		return func(ctx context.Context, tx pgx.Tx) (n int, err error) {
			b := &batch{requests: newRequests(oneConn{conn}, row), tx: tx, waits: map[relay.Key]bool{}}
			replies, err := b.do(ctx, tx, verb, rs)
			for _, r := range replies {
				if r.outcome != "" && r.problem == "" {
					n++
				}
			}
			return n, err
		}
	}
	for _, op := range []struct {
		name string
		do   func(context.Context, pgx.Tx) (int, error)
	}{
		{"mark", settle(Mark)},
		{"delete", settle(Delete)},
		{"mark locked rows", func(ctx context.Context, tx pgx.Tx) (int, error) {
			ids, eventIDs := columnsOf(refs)
			tag, err := tx.Exec(ctx, fmt.Sprintf(markLockedSQL, row.Table.SQL()), ids, eventIDs)
			return int(tag.RowsAffected()), err
		}},
		{"find unsettled", func(ctx context.Context, tx pgx.Tx) (int, error) {
			var u unsettled
			err := newSettler(oneConn{conn}, row, Mark).findUnsettled(ctx, refs, &u)
			return len(u.refs), err
		}},
		{"park", func(ctx context.Context, tx pgx.Tx) (int, error) {
			p := &parking{failures: newFailures(oneConn{conn}, row)}
			err := p.park(ctx, tx, parked)
			return named - len(p.gone), err
		}},
		{"bury", func(ctx context.Context, tx pgx.Tx) (n int, err error) {
			became, err := bury(ctx, tx, row, deaths)
			for _, b := range became {
				if b.moved {
					n++
				}
			}
			return n, err
		}},
		{"look at what was not buried", func(ctx context.Context, tx pgx.Tx) (n int, err error) {
			b := &burying{failures: newFailures(oneConn{conn}, row), became: make([]relay.Burial, named)}
			graves := make([]grave, named)
			for i, d := range deaths {
				graves[i] = grave{d, i}
			}
			err = b.lookAt(ctx, tx, graves)
			for _, became := range b.became {
				if errors.Is(became.Err, relay.ErrLocked) {
					n++
				}
			}
			return n, err
		}},
		{VerbUnpark, verb(VerbUnpark)},
		{VerbRetry, verb(VerbRetry)},
		{VerbDead, verb(VerbDead)},
	} {
		tx, err := conn.Begin(t.Context())
		if err == nil {
			_, err = tx.Exec(t.Context(), plainPlan)
		}
		if err != nil {
			t.Fatal(err)
		}
		before := rowsRead(t, tx)
		n, err := op.do(t.Context(), tx)
		if err != nil || n != named {
			t.Fatalf("%s: %d of %d, %v", op.name, n, named, err)
		}
		// Each row is looked up a few times at most, in a handful of tables.
		if read := rowsRead(t, tx) - before; read > 20*named {
			t.Errorf("%s of %d events read %d rows", op.name, named, read)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// rowsRead counts the rows that the transaction has read so far, of whatever table.
func rowsRead(t *testing.T, tx pgx.Tx) (n int) {
	t.Helper()
	err := tx.QueryRow(t.Context(), "SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint FROM pg_stat_xact_user_tables").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// namedEvents are some of the parked ones, spread over all of them, as everything that names them does.
func namedEvents(t *testing.T, db *pgxpool.Pool, n int) (refs []relay.Ref, parked []relay.ParkedKey, deaths []death, rs []request) {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT id, event_id, topic, partition_key FROM outbox.parked_key ORDER BY id % 97, id LIMIT $1`, n)
	if err != nil {
		t.Fatal(err)
	}
	var ref relay.Ref
	var key relay.Key
	_, err = pgx.ForEachRow(rows, []any{&ref.ID, &ref.EventID, &key.Topic, &key.PartitionKey}, func() error {
		refs = append(refs, ref)
		parked = append(parked, relay.ParkedKey{Key: key, Event: ref, EventType: "order.confirmed.v1", Code: "MESSAGE_TOO_LARGE", Reason: "too large"})
		deaths = append(deaths, death{key: key, ref: ref, code: "DEAD", reason: "for the test", by: "ann"})
		named := ref
		rs = append(rs, request{id: int64(len(refs)), verb: VerbDead, key: key, event: &named, requestedBy: "ann"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return refs, parked, deaths, rs
}
