// Package order is the service that customers talk to. It places orders, and learns from the other services what becomes of them.
package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/examples/shop/contract"
	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/kafka"
)

const name = "order-service"

// Tables are the service's own. An order counts what it is told: told twice, it shows.
const Tables = `
CREATE TABLE orders (
	id        text   PRIMARY KEY,
	customer  text   NOT NULL,
	amount    bigint NOT NULL,
	paid      int    NOT NULL DEFAULT 0,
	declined  int    NOT NULL DEFAULT 0,
	shipped   int    NOT NULL DEFAULT 0
)`

// Service has the orders. Make one with [New].
type Service struct {
	pool      *pgxpool.Pool
	events    *outbox.Writer
	processor *inbox.Processor[pgx.Tx]
	shop      contract.Shop
}

// New returns the service over its database.
func New(pool *pgxpool.Pool, shop contract.Shop, cfg inbox.Config) (*Service, error) {
	events, err := outbox.NewWriter(outbox.Config{Topics: shop.Topics(name)})
	if err != nil {
		return nil, err
	}
	s := &Service{pool: pool, events: events, shop: shop}
	handlers := inbox.NewHandlers[pgx.Tx]()
	inbox.On(handlers, contract.OrderPaidType, func(ctx context.Context, tx pgx.Tx, e inbox.Event[contract.OrderPaid]) error {
		return note(ctx, tx, `UPDATE orders SET paid = paid + 1 WHERE id = $1`, e.Payload.OrderID)
	})
	inbox.On(handlers, contract.PaymentDeclinedType, func(ctx context.Context, tx pgx.Tx, e inbox.Event[contract.PaymentDeclined]) error {
		return note(ctx, tx, `UPDATE orders SET declined = declined + 1 WHERE id = $1`, e.Payload.OrderID)
	})
	inbox.On(handlers, contract.OrderShippedType, func(ctx context.Context, tx pgx.Tx, e inbox.Event[contract.OrderShipped]) error {
		return note(ctx, tx, `UPDATE orders SET shipped = shipped + 1 WHERE id = $1`, e.Payload.OrderID)
	})
	s.processor, err = inbox.NewProcessor(shop.Consumer(name), inbox.Pool(pool), handlers, cfg)
	return s, err
}

// note writes down what has become of an order. Payment and shipping have topics of their own, so "shipped" may come before "paid": neither needs the other.
func note(ctx context.Context, tx pgx.Tx, query, order string) error {
	tag, err := tx.Exec(ctx, query, order)
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("there is no such order")
	}
	if err != nil {
		return fmt.Errorf("note on order %s: %w", order, err)
	}
	return nil
}

// Place stores an order and its event: both, or neither.
func (s *Service) Place(ctx context.Context, order contract.OrderPlaced) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return s.place(ctx, tx, order) })
}

func (s *Service) place(ctx context.Context, tx pgx.Tx, order contract.OrderPlaced) error {
	_, err := tx.Exec(ctx, `INSERT INTO orders (id, customer, amount) VALUES ($1, $2, $3)`, order.OrderID, order.Customer, order.Amount)
	if err != nil {
		return fmt.Errorf("store order %s: %w", order.OrderID, err)
	}
	_, err = s.events.Write(ctx, tx, outbox.Event{AggregateType: "Order", AggregateID: order.OrderID, Type: contract.OrderPlacedType, Payload: order})
	return err
}

// Run handles what the other services say until ctx ends.
func (s *Service) Run(ctx context.Context, cfg kafka.Config) error {
	consumer, err := kafka.NewConsumer(s.processor, kafka.ConsumerConfig{
		Config: cfg, Topics: []string{s.shop.Payments(), s.shop.Shipments()}, Instance: name + "-1",
	})
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

// Serve places an order of one of the customers every interval, until there are so many orders. It goes on where a process that was killed has stopped.
func (s *Service) Serve(ctx context.Context, next func() contract.OrderPlaced, orders int, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var placed int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM orders`).Scan(&placed); err != nil {
		return fmt.Errorf("count the orders: %w", err)
	}
	for ; placed < orders; placed++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.Place(ctx, next()); err != nil {
			return err
		}
	}
	return nil
}
