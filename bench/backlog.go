package main

import (
	"context"
	"fmt"
)

// fillSQL writes a backlog in one statement: $1 events to topic $2 over $3 keys. The event ids are time-ordered, as version 7 of UUIDs is
// and as services draw them: one millisecond apart, the last one now.
const fillSQL = `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - $1 + i), 12, '0') || '7' || substr(r, 1, 3) || '8' || substr(r, 4, 15))::uuid,
  'Order', k, 'order.confirmed.v1',
  jsonb_build_object('eventId', gen_random_uuid(), 'eventType', 'OrderConfirmed.v1', 'occurredAt', now(), 'aggregateType', 'Order',
    'aggregateId', k, 'customerId', gen_random_uuid(), 'totalAmount', i, 'note', repeat('x', 100)),
  $2, k
FROM (SELECT i, (i % $3)::text AS k, md5(random()::text) AS r FROM generate_series(1, $1::bigint) i) s`

// backlog empties the table, fills it, and brings the server to rest.
func (s *stand) backlog(ctx context.Context, rows int, topic string) (ledger, error) {
	if err := s.clear(ctx); err != nil {
		return nil, err
	}
	if _, err := s.pool.Exec(ctx, fillSQL, int64(rows), topic, int64(keys)); err != nil {
		return nil, fmt.Errorf("fill the table: %w", err)
	}
	l, err := s.readLedger(ctx)
	if err != nil {
		return nil, err
	}
	return l, s.rest(ctx)
}

// clear empties the table; the ids go on.
func (s *stand) clear(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, `TRUNCATE outbox_event`); err != nil {
		return fmt.Errorf("empty the table: %w", err)
	}
	return nil
}
