// Package shipping is the service that sends parcels: one for each order that is paid.
package shipping

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/examples/shop/contract"
	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/kafka"
)

const name = "shipping-service"

// Tables are the service's own. Nothing in them keeps an order from being shipped twice: that is for the inbox to do.
const Tables = `
CREATE TABLE shipment (order_id text NOT NULL, shipped_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX shipment_order ON shipment (order_id)`

// Service ships orders. Make one with [New].
type Service struct {
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
	s := &Service{events: events, shop: shop}
	handlers := inbox.NewHandlers[pgx.Tx]()
	inbox.On(handlers, contract.OrderPaidType, s.ship) // payment.declined is in the topic as well, and ignored
	s.processor, err = inbox.NewProcessor(shop.Consumer(name), inbox.Pool(pool), handlers, cfg)
	return s, err
}

// Run handles what the other services say until ctx ends.
func (s *Service) Run(ctx context.Context, cfg kafka.Config) error {
	consumer, err := kafka.NewConsumer(s.processor, kafka.ConsumerConfig{Config: cfg, Topics: []string{s.shop.Payments()}, Instance: name + "-1"})
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

// ship sends the parcel of an order.
func (s *Service) ship(ctx context.Context, tx pgx.Tx, e inbox.Event[contract.OrderPaid]) error {
	order := e.Payload.OrderID
	if _, err := tx.Exec(ctx, `INSERT INTO shipment (order_id) VALUES ($1)`, order); err != nil {
		return fmt.Errorf("write down the shipment: %w", err)
	}
	_, err := s.events.Write(ctx, tx, outbox.Event{
		AggregateType: "Shipment", AggregateID: order, Type: contract.OrderShippedType, Payload: contract.OrderShipped{OrderID: order},
	})
	return err
}
