package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/kafka"
)

// inboxEvent is the payload that consumers handle.
type inboxEvent struct {
	Order string `json:"order"`
	Total int    `json:"total"`
}

const inboxType = "order.confirmed.v1"

// inbox measures what it costs a consumer to remember what it has handled: the same handler with and without.
func (b *bench) inbox(ctx context.Context) ([]Measure, error) {
	if _, err := b.stand.pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS bench_invoice (n bigserial PRIMARY KEY, order_id text NOT NULL, total int NOT NULL)`); err != nil {
		return nil, fmt.Errorf("make the handler's table: %w", err)
	}
	var all []Measure
	for _, batch := range []int{1, 100} {
		rows := b.inboxRows
		if batch == 1 {
			rows /= 5
		}
		with, without := b.consuming("remembering", rows, batch, inbox.Config{}), b.consuming("not remembering", rows, batch, inbox.Config{
			EventID: func(*inbox.Record) (string, error) { return "", inbox.ErrNoID }, NoID: inbox.HandleNoID,
		})
		m, err := b.sideBySide(ctx, "inbox", with, without, Measure{Name: fmt.Sprintf("inbox: %d events in a transaction", batch)})
		if err != nil {
			return all, err
		}
		m.aim("at least 0.8 of the handler alone", m.Ratio.Median >= 0.8)
		all = append(all, m)
	}
	return all, nil
}

// consuming is how many events a second a consumer handles.
func (b *bench) consuming(name string, rows, batch int, cfg inbox.Config) turn {
	name = fmt.Sprintf("%s, %d in a transaction", name, batch)
	return turn{name, func(ctx context.Context) (rate float64, err error) {
		err = b.stand.withTopic(ctx, func(topic string) error {
			if err := b.stand.produce(ctx, topic, rows); err != nil {
				return err
			}
			if _, err := b.stand.pool.Exec(ctx, `TRUNCATE bench_invoice, outbox.inbox`); err != nil {
				return fmt.Errorf("clear what was handled: %w", err)
			}
			if err := b.stand.table.rest(ctx); err != nil {
				return err
			}
			began := time.Now()
			if err := b.consumeAll(ctx, topic, rows, batch, cfg); err != nil {
				return err
			}
			rate = float64(rows) / time.Since(began).Seconds()
			return nil
		})
		return rate, err
	}}
}

func (s *stand) produce(ctx context.Context, topic string, rows int) error {
	records := make([]*kgo.Record, rows)
	for i := range records {
		order := fmt.Sprint(i % keys)
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		records[i] = &kgo.Record{
			Topic: topic, Key: []byte(order), Value: fmt.Appendf(nil, `{"order": %q, "total": %d}`, order, i),
			Headers: []kgo.RecordHeader{{Key: "x-event-id", Value: []byte(id.String())}, {Key: "x-event-type", Value: []byte(inboxType)}},
		}
	}
	if err := s.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return nil
}

// consumeAll handles the topic's records in a group of its own.
func (b *bench) consumeAll(ctx context.Context, topic string, rows, batch int, cfg inbox.Config) error {
	handlers := inbox.NewHandlers[pgx.Tx]()
	inbox.On(handlers, inboxType, func(ctx context.Context, tx pgx.Tx, e inbox.Event[inboxEvent]) error {
		if _, err := tx.Exec(ctx, `UPDATE bench_order SET version = version + 1 WHERE id = $1`, e.Payload.Order); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO bench_invoice (order_id, total) VALUES ($1, $2)`, e.Payload.Order, e.Payload.Total)
		return err
	})
	p, err := inbox.NewProcessor("bench-"+topic, inbox.Pool(b.stand.pool), handlers, cfg)
	if err != nil {
		return err
	}
	c, err := kafka.NewConsumer(p, kafka.ConsumerConfig{
		Config: kafka.Config{Brokers: b.stand.cluster.Brokers()}, Topics: []string{topic}, Run: inbox.RunnerConfig{Batch: batch, MaxUncommitted: 5000},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, 5*time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for c.Stats().Handled < int64(rows) {
		select {
		case err := <-ended:
			return errors.Join(err, fmt.Errorf("the consumer ended with %+v", c.Stats()))
		case <-time.After(time.Millisecond):
		}
	}
	stop()
	return <-ended
}
