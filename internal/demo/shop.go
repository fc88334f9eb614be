package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox"
)

const (
	orders   = 200
	writers  = 8
	schema   = "outbox_demo"
	rollback = 0.05
)

// shop commits orders and their events at a rate.
type shop struct {
	pool   *pgxpool.Pool
	events *outbox.Writer
	ledger *ledger
}

// steps is what happens to an order, again and again.
var steps = []string{"order.placed.v1", "order.confirmed.v1", "order.paid.v1", "order.shipped.v1"}

var errChangedMind = errors.New("the customer changed their mind")

// open runs the writers until ctx ends.
func (s *shop) open(ctx context.Context, rate float64) error {
	tickets := make(chan struct{}, writers)
	var group sync.WaitGroup
	var once sync.Once
	var failure error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range writers {
		group.Go(func() {
			for range tickets {
				if err := s.serve(ctx); err != nil && ctx.Err() == nil {
					once.Do(func() { failure = err; cancel() })
				}
			}
		})
	}
	issueTickets(ctx, tickets, rate)
	close(tickets)
	group.Wait()
	return failure
}

// issueTickets hands out rate tickets a second, in small lots, and catches up when the writers were slow.
func issueTickets(ctx context.Context, tickets chan<- struct{}, rate float64) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	start, issued := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for due := int(now.Sub(start).Seconds() * rate); issued < due; issued++ {
				select {
				case tickets <- struct{}{}:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// serve does one business transaction: lock the order, change it, write the event. Some end in a rollback. A transaction that has begun is
// finished: of a COMMIT that was cut off nobody could say whether it counts.
func (s *shop) serve(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	id := uuid.Must(uuid.NewV7())
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		order := fmt.Sprintf("order-%03d", rand.IntN(orders))
		var version int64
		err := tx.QueryRow(ctx, "UPDATE "+schema+".shop_order SET version = version + 1 WHERE id = $1 RETURNING version", order).Scan(&version)
		if err != nil {
			return fmt.Errorf("change %s: %w", order, err)
		}
		_, err = s.events.Write(ctx, tx, outbox.Event{
			ID:            id,
			AggregateType: "Order",
			AggregateID:   order,
			Type:          steps[version%int64(len(steps))],
			Payload:       outbox.Envelope{Data: map[string]any{"version": version, "totalAmount": 10 + rand.IntN(1000)}},
		})
		if err != nil {
			return err
		}
		if rand.Float64() < rollback {
			return errChangedMind
		}
		return nil
	})
	switch {
	case err == nil:
		s.ledger.commit(id, time.Now())
	case errors.Is(err, errChangedMind):
		s.ledger.rollBack(id)
		return nil
	}
	return err
}

// prepare makes the shop's own table anew.
func prepare(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, "CREATE TABLE "+schema+".shop_order (id text PRIMARY KEY, version bigint NOT NULL DEFAULT 0)")
	if err != nil {
		return fmt.Errorf("create the shop's table: %w", err)
	}
	_, err = pool.Exec(ctx, "INSERT INTO "+schema+".shop_order (id) SELECT 'order-' || lpad(i::text, 3, '0') FROM generate_series(0, $1::int) i", orders-1)
	if err != nil {
		return fmt.Errorf("stock the shop: %w", err)
	}
	return nil
}
