package kafka_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/kafka"
)

// A program that has a consumer of its own: each event is handled once, and its offset committed behind that.
func ExampleInboxRecord() {
	handle := func(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
		_, err := tx.Exec(ctx, `INSERT INTO invoice (order_id) VALUES ($1)`, string(r.Key))
		return err
	}
	once := func(ctx context.Context, pool *pgxpool.Pool, r *kgo.Record) error {
		id, err := inbox.EventID(kafka.InboxRecord(r))
		if err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := inbox.Process(ctx, tx, "billing", id, func(ctx context.Context) error { return handle(ctx, tx, r) })
			return err
		})
	}
	run := func(ctx context.Context, pool *pgxpool.Pool, brokers []string) error {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(brokers...), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("order-service.order"),
			kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		)
		if err != nil {
			return err
		}
		defer client.CloseAllowingRebalance()
		for {
			fetches := client.PollRecords(ctx, 100)
			if err := fetches.Err0(); err != nil {
				return err // ctx has ended
			}
			for it := fetches.RecordIter(); !it.Done(); {
				r := it.Next()
				if err := once(ctx, pool, r); err != nil {
					return fmt.Errorf("handle %s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err) // it comes again with the next start
				}
			}
			if err := client.CommitRecords(ctx, fetches.Records()...); err != nil {
				return err // what was handled comes again, and is a repeat
			}
			client.AllowRebalance()
		}
	}
	_ = run // with your database and brokers
}
