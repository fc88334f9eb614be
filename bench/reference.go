package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// referenceBatch is how many events the reference takes in one transaction.
const referenceBatch = 50

// reference is the algorithm that services use without the relay: lock a batch, publish it while the transaction is open, mark it, commit.
// Driver and client are those of the relay, so that what is compared is the algorithm.
type reference struct {
	database string
	brokers  []string
	pause    time.Duration
}

// referenceRun is a reference with its connections.
type referenceRun struct {
	conn   *pgx.Conn
	client *kgo.Client
}

// drain takes batches until there are none.
func (r reference) drain(ctx context.Context) error {
	return r.with(ctx, func(run *referenceRun) error {
		for {
			if n, err := run.publish(ctx); n == 0 || err != nil {
				return err
			}
		}
	})
}

// follow takes batches until ctx ends; a batch that was begun is finished.
func (r reference) follow(ctx context.Context) error {
	return r.with(ctx, func(run *referenceRun) error {
		for ctx.Err() == nil {
			n, err := run.publish(context.WithoutCancel(ctx))
			if err != nil {
				return err
			}
			if n == referenceBatch {
				continue
			}
			select {
			case <-ctx.Done():
			case <-time.After(r.pause):
			}
		}
		return nil
	})
}

func (r reference) with(ctx context.Context, do func(*referenceRun) error) error {
	conn, err := pgx.Connect(ctx, r.database)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	client, err := kgo.NewClient(kgo.SeedBrokers(r.brokers...), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return fmt.Errorf("make producer: %w", err)
	}
	defer client.Close()
	return do(&referenceRun{conn, client})
}

// publish takes one batch and returns how many events it held.
func (r *referenceRun) publish(ctx context.Context) (n int, err error) {
	tx, err := r.conn.Begin(ctx)
	if err != nil {
		return 0, fmt.Errorf("begin: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
		}
	}()
	ids, topics, err := lockBatch(ctx, tx)
	if err != nil {
		return 0, err
	}
	for topic, records := range topics {
		if err := r.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return 0, fmt.Errorf("publish to %s: %w", topic, err)
		}
	}
	if len(ids) > 0 {
		if _, err := tx.Exec(ctx, `UPDATE outbox_event SET published_at = $1 WHERE id = ANY($2)`, time.Now(), ids); err != nil {
			return 0, fmt.Errorf("mark: %w", err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return 0, fmt.Errorf("commit: %w", err)
	}
	return len(ids), nil
}

// lockBatch returns the records by topic.
func lockBatch(ctx context.Context, tx pgx.Tx) (ids []int64, topics map[string][]*kgo.Record, err error) {
	const sql = `SELECT id, event_id::text, event_type, topic, partition_key, payload FROM outbox_event
WHERE published_at IS NULL ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED`
	rows, err := tx.Query(ctx, sql, referenceBatch)
	if err != nil {
		return nil, nil, fmt.Errorf("lock batch: %w", err)
	}
	topics = map[string][]*kgo.Record{}
	for rows.Next() {
		var id int64
		var event, kind, topic, key string
		var payload []byte
		if err := rows.Scan(&id, &event, &kind, &topic, &key, &payload); err != nil {
			rows.Close()
			return nil, nil, fmt.Errorf("read event: %w", err)
		}
		ids = append(ids, id)
		topics[topic] = append(topics[topic], &kgo.Record{Topic: topic, Key: []byte(key), Value: payload, Headers: []kgo.RecordHeader{
			{Key: "x-event-id", Value: []byte(event)}, {Key: "x-event-type", Value: []byte(kind)},
		}})
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fmt.Errorf("lock batch: %w", err)
	}
	return ids, topics, nil
}
