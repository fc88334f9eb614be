package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox"
)

// commits holds the time after COMMIT, by the writer's clock, of each event.
type commits map[uuid.UUID]time.Time

// writers are a service's connections, each used by one goroutine.
type writers []*writer

type writer struct {
	conn   *pgx.Conn
	topic  string
	number int
	of     int
	random *rand.Rand
	done   commits
}

// openWriters connects n writers. Which keys they choose is the same in every run.
func (s *stand) openWriters(ctx context.Context, n int, topic string) (writers, error) {
	var all writers
	for i := range n {
		conn, err := pgx.Connect(ctx, s.server.URL("postgres"))
		if err != nil {
			all.Close()
			return nil, fmt.Errorf("connect writer: %w", err)
		}
		all = append(all, &writer{conn: conn, topic: topic, number: i, of: n, random: rand.New(rand.NewPCG(1, uint64(i)))})
	}
	return all, nil
}

func (w writers) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	for _, one := range w {
		one.conn.Close(ctx)
	}
}

// each lets all writers do something at the same time and returns what they committed with it.
func (w writers) each(do func(*writer) error) (commits, error) {
	errs := make([]error, len(w))
	var wg sync.WaitGroup
	for i, one := range w {
		one.done = commits{}
		wg.Go(func() { errs[i] = do(one) })
	}
	wg.Wait()
	all := commits{}
	for i, one := range w {
		if errs[i] != nil {
			return nil, fmt.Errorf("write: %w", errs[i])
		}
		maps.Copy(all, one.done)
	}
	return all, nil
}

// offset spreads the writers over an interval.
func (w *writer) offset(interval time.Duration) time.Duration {
	return interval * time.Duration(w.number) / time.Duration(w.of)
}

// keepWriting begins a transaction at each multiple of the interval, or at once when that time has passed already: a slow commit is caught up
// with.
func (w *writer) keepWriting(ctx context.Context, next time.Time, interval time.Duration, end time.Time) error {
	for ; next.Before(end); next = next.Add(interval) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(next)):
		}
		if err := w.write(ctx); err != nil {
			return err
		}
	}
	return nil
}

// writeUntil writes in intervals until stop is closed; a transaction that was begun is finished.
func (w *writer) writeUntil(ctx context.Context, stop <-chan struct{}, interval time.Duration) error {
	for next := time.Now().Add(w.offset(interval)); ; next = next.Add(interval) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-stop:
			return nil
		case <-time.After(time.Until(next)):
		}
		if err := w.write(ctx); err != nil {
			return err
		}
	}
}

// write is the business transaction: the row lock of the aggregate, then the event, by the product's own library.
func (w *writer) write(ctx context.Context) error {
	event, err := w.event()
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, w.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE bench_order SET version = version + 1 WHERE id = $1`, event.AggregateID); err != nil {
			return fmt.Errorf("change aggregate: %w", err)
		}
		_, err := outbox.Write(ctx, tx, event)
		return err
	})
	w.done[event.ID] = time.Now()
	return err
}

// event is as large as those of the backlog.
func (w *writer) event() (outbox.Event, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return outbox.Event{}, fmt.Errorf("draw event id: %w", err)
	}
	key := strconv.Itoa(w.random.IntN(keys))
	return outbox.Event{
		ID: id, AggregateType: "Order", AggregateID: key, Type: "order.confirmed.v1", Topic: w.topic,
		Payload: map[string]any{
			"eventId": id, "eventType": "OrderConfirmed.v1", "occurredAt": time.Now().UTC(), "aggregateType": "Order", "aggregateId": key,
			"customerId": id, "totalAmount": w.random.IntN(100_000), "note": strings.Repeat("x", 100),
		},
	}, nil
}
