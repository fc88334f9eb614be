package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/migrate"
)

// parkedTopic is the topic of the parked keys.
const parkedTopic = "bench-service.order.parked"

// grownTable is a table as it is after a long time.
type grownTable struct {
	stand  *stand
	name   string
	rows   int
	parked int // keys
	events int // of each of these, all over the table
	random bool
}

// build writes the rows before there is any index: that takes a fraction of the time.
func (g grownTable) build(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, g.stand.server.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, step := range []struct {
		what string
		do   func(context.Context, *pgx.Conn) error
	}{{"create", g.create}, {"fill", g.fill}, {"index", g.index}, {"register", g.register}, {"park keys of", g.park}, {"vacuum", g.vacuum}} {
		if err := step.do(ctx, conn); err != nil {
			return fmt.Errorf("%s %s: %w", step.what, g.name, err)
		}
	}
	return nil
}

func (g grownTable) create(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING IDENTITY)`, g.name, g.stand.table.name))
	return err
}

// grownSQL writes $1 rows. All are published but those of the parked keys, $3 in number: every $2th row is one of theirs.
const grownSQL = `INSERT INTO %s (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at, published_at)
SELECT %s, 'Order', k, 'order.confirmed.v1', jsonb_build_object('eventId', r::uuid, 'eventType', 'OrderConfirmed.v1', 'occurredAt', now(), 'aggregateType', 'Order',
    'aggregateId', k, 'customerId', r::uuid, 'totalAmount', i, 'note', repeat('x', 100)),
  CASE WHEN parked THEN '` + parkedTopic + `' ELSE 'bench-service.order.confirmed' END, k, now(), CASE WHEN parked THEN NULL ELSE now() END
FROM (SELECT i, i %% $2 = 0 AS parked, CASE WHEN i %% $2 = 0 THEN 'parked-' || (i / $2 %% $3) ELSE (i %% $4)::text END AS k, md5(i::text) AS r
  FROM generate_series(1, $1::bigint) i) s`

func (g grownTable) fill(ctx context.Context, conn *pgx.Conn) error {
	id := orderedID
	if g.random {
		id = randomID
	}
	every := g.rows / (g.parked * g.events)
	_, err := conn.Exec(ctx, fmt.Sprintf(grownSQL, g.name, id), int64(g.rows), int64(every), int64(g.parked), int64(keys))
	return err
}

func (g grownTable) index(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "SET maintenance_work_mem = '512MB'"); err != nil {
		return err
	}
	for _, sql := range []string{
		"ALTER TABLE %s ADD PRIMARY KEY (id)",
		"ALTER TABLE %s ADD UNIQUE (event_id)",
		"CREATE INDEX ON %s (id) WHERE published_at IS NULL",
	} {
		if _, err := conn.Exec(ctx, fmt.Sprintf(sql, g.name)); err != nil {
			return err
		}
	}
	return nil
}

// register makes the table a source.
func (g grownTable) register(ctx context.Context, conn *pgx.Conn) error {
	_, err := migrate.Up(ctx, conn, migrate.Config{Table: "public." + g.name})
	return err
}

// parkSQL writes down what the relay would have written when it parked the keys of topic $2 in the table $1.
const parkSQL = `INSERT INTO outbox.parked_key (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason)
SELECT DISTINCT ON (e.partition_key) s.id, e.topic, sha256(convert_to(e.topic, 'UTF8') || '\x00'::bytea || convert_to(e.partition_key, 'UTF8')), e.partition_key,
  ((hashtextextended(e.partition_key COLLATE "C", 0) & 4294967295) %% s.lanes)::integer,
  e.id, e.event_id, e.event_type, 'MESSAGE_TOO_LARGE', 'made by the bench'
FROM %s e JOIN outbox.source s ON s.table_schema = 'public' AND s.table_name = $1
WHERE e.published_at IS NULL ORDER BY e.partition_key, e.id`

func (g grownTable) park(ctx context.Context, conn *pgx.Conn) error {
	tag, err := conn.Exec(ctx, fmt.Sprintf(parkSQL, g.name), g.name)
	if err == nil && tag.RowsAffected() != int64(g.parked) {
		return fmt.Errorf("%d keys were parked, not %d", tag.RowsAffected(), g.parked)
	}
	return err
}

func (g grownTable) vacuum(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "VACUUM ANALYZE "+g.name)
	return err
}
