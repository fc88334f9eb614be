package main

import (
	"context"
	"fmt"
	"runtime"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// outboxTable is an outbox table, and where in it the events of the present run begin.
type outboxTable struct {
	pool *pgxpool.Pool
	name string
	// after is the highest id of earlier runs, whose rows the run is not about.
	after int64
}

// backlog says what a table is filled with.
type backlog struct {
	topic string
	rows  int
	// keys is how many partition keys the events are spread over, in turn; 0 is the usual number.
	keys int
	// random draws event ids at random (version 4); otherwise they are ordered by time, as version 7 is and as services draw them.
	random bool
}

// The event ids of a backlog: the time-ordered ones are one millisecond apart, the last one now. r is a random md5 in hexadecimal.
const (
	orderedID = `(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - $1 + i), 12, '0') || '7' || substr(r, 1, 3) || '8' || substr(r, 4, 15))::uuid`
	randomID  = `gen_random_uuid()`
)

// fillSQL writes a backlog in one statement: $1 events to topic $2 over $3 keys.
const fillSQL = `INSERT INTO %s (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT %s, 'Order', k, 'order.confirmed.v1',
  jsonb_build_object('eventId', gen_random_uuid(), 'eventType', 'OrderConfirmed.v1', 'occurredAt', now(), 'aggregateType', 'Order',
    'aggregateId', k, 'customerId', gen_random_uuid(), 'totalAmount', i, 'note', repeat('x', 100)),
  $2, k
FROM (SELECT i, (i %% $3)::text AS k, md5(random()::text) AS r FROM generate_series(1, $1::bigint) i) s`

// fill adds a backlog to the table and returns what of it must arrive.
func (t *outboxTable) fill(ctx context.Context, b backlog) (ledger, error) {
	if b.keys == 0 {
		b.keys = keys
	}
	id := orderedID
	if b.random {
		id = randomID
	}
	if err := t.pool.QueryRow(ctx, fmt.Sprintf(`SELECT coalesce(max(id), 0) FROM %s`, t.name)).Scan(&t.after); err != nil {
		return nil, fmt.Errorf("read the highest id of %s: %w", t.name, err)
	}
	if _, err := t.pool.Exec(ctx, fmt.Sprintf(fillSQL, t.name, id), int64(b.rows), b.topic, int64(b.keys)); err != nil {
		return nil, fmt.Errorf("fill %s: %w", t.name, err)
	}
	return t.ledger(ctx)
}

// clear empties the table; the ids go on.
func (t *outboxTable) clear(ctx context.Context) error {
	if _, err := t.pool.Exec(ctx, "TRUNCATE "+t.name); err != nil {
		return fmt.Errorf("empty %s: %w", t.name, err)
	}
	t.after = 0
	return nil
}

// ledger takes down the run's events as the table has them.
func (t *outboxTable) ledger(ctx context.Context) (ledger, error) {
	rows, err := t.pool.Query(ctx, fmt.Sprintf(`SELECT event_id, id FROM %s WHERE id > $1`, t.name), t.after)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	l := ledger{}
	var event [16]byte
	var id int64
	if _, err := pgx.ForEachRow(rows, []any{&event, &id}, func() error { l[event] = id; return nil }); err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return l, nil
}

// unsettled counts those of the run's events that are not published as far as the table knows.
func (t *outboxTable) unsettled(ctx context.Context) (n int, err error) {
	err = t.pool.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM %s WHERE id > $1 AND published_at IS NULL`, t.name), t.after).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count unpublished events of %s: %w", t.name, err)
	}
	return n, nil
}

// rest brings every run to the same beginning: nothing of the run before is left to be written, by the server or by the system, or to be collected.
func (t *outboxTable) rest(ctx context.Context) error {
	for _, sql := range []string{"VACUUM ANALYZE " + t.name, "VACUUM ANALYZE bench_order", "CHECKPOINT"} {
		if _, err := t.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("run %s: %w", sql, err)
		}
	}
	syscall.Sync()
	runtime.GC()
	return nil
}
