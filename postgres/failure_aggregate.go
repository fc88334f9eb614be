package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// rootSQL is the condition for the parked key r to stop its aggregate, as the indexes parked_key_root and parked_key_aggregate have it.
const rootSQL = `r.aggregate_type IS NOT NULL AND r.code <> '` + relay.CodeAggregateParked + `'`

// rootsOfSQL are the parked keys r that stop the aggregate which the parked key p waits for, the oldest first, over the index parked_key_aggregate.
const rootsOfSQL = `FROM outbox.parked_key r
    WHERE p.code = '` + relay.CodeAggregateParked + `' AND r.source = p.source AND ` + rootSQL + `
      AND hashtextextended(r.aggregate_id COLLATE "C", 0) = hashtextextended(p.aggregate_id COLLATE "C", 0)
      AND r.aggregate_id = p.aggregate_id AND r.aggregate_type = p.aggregate_type
    ORDER BY r.id LIMIT 1`

// rootsNameSQL is a name for what is stopped: it changes with every root that comes or goes. It relies on the index parked_key_root. $1 is the source.
const rootsNameSQL = `(SELECT count(*) || ':' || coalesce(sum(uuid_hash_extended(r.event_id, r.id)), 0) FROM outbox.parked_key r WHERE r.source = $1 AND ` + rootSQL + `)`

// stoppedAggregates reads them when they have another name than is known, and their name in the same snapshot.
func stoppedAggregates(ctx context.Context, db pg.Runner, row pg.Source, known string) (s relay.StoppedAggregates, err error) {
	err = db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if err := conn.QueryRow(ctx, "SELECT "+rootsNameSQL, row.ID).Scan(&s.Name); err != nil || s.Name == known {
			return err
		}
		rows, err := conn.Query(ctx, `
SELECT `+rootsNameSQL+`, coalesce(r.topic, ''), coalesce(r.partition_key, ''), coalesce(r.id, 0), r.event_id, coalesce(r.aggregate_type, ''), coalesce(r.aggregate_id, '')
FROM (SELECT) one LEFT JOIN outbox.parked_key r ON r.source = $1 AND `+rootSQL, row.ID)
		if err != nil {
			return err
		}
		var event *uuid.UUID
		var a relay.StoppedAggregate
		_, err = pgx.ForEachRow(rows, []any{&s.Name, &a.Key.Topic, &a.Key.PartitionKey, &a.Event.ID, &event, &a.Type, &a.ID}, func() error {
			if event != nil {
				a.Event.EventID = *event
				s.All = append(s.All, a)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return relay.StoppedAggregates{}, fmt.Errorf("read the stopped aggregates of %s: %w", row.Table, err)
	}
	return s, nil
}

// FreeFollowers implements [relay.Aggregates].
func (f *failures) FreeFollowers(ctx context.Context, claim relay.Claim, keys []relay.Key) (freed []relay.Key, err error) {
	hashes := make([][]byte, len(keys))
	for i, key := range keys {
		hashes[i] = pg.KeyHash(key)
	}
	err = pg.InTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) error {
		freed = nil
		if err := holdLanes(ctx, tx, f.row, claim, keys); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, plainPlan); err != nil {
			return fmt.Errorf("set the plan: %w", err)
		}
		if _, err := tx.Exec(ctx, `
DELETE FROM outbox.parked_key p USING unnest($2::bytea[]) u(hash)
WHERE p.source = $1 AND p.key_hash = u.hash AND p.code = '`+relay.CodeAggregateParked+`'`, f.row.ID, hashes); err != nil {
			return err
		}
		return eachNumber(ctx, tx, func(i int) { freed = append(freed, keys[i]) }, `
SELECT u.n FROM unnest($2::bytea[]) WITH ORDINALITY u(hash, n)
WHERE NOT EXISTS (SELECT FROM outbox.parked_key p WHERE p.source = $1 AND p.key_hash = u.hash)`, f.row.ID, hashes)
	})
	if err != nil {
		return nil, fmt.Errorf("let %d keys of %s go on that wait for aggregates: %w", len(keys), f.row.Table, err)
	}
	return freed, nil
}
