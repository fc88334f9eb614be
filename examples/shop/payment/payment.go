// Package payment is the service that has the customers' money. For each order that is placed it takes the money once, and says so; or it declines.
package payment

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

const name = "payment-service"

// Tables are the service's own. Nothing in them keeps an order from being paid twice: that is for the inbox to do.
const Tables = `
CREATE TABLE account (customer text PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE payment (order_id text NOT NULL, customer text NOT NULL, amount bigint NOT NULL);
CREATE INDEX payment_order ON payment (order_id)`

// Service takes money. Make one with [New].
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
	inbox.On(handlers, contract.OrderPlacedType, s.take)
	s.processor, err = inbox.NewProcessor(shop.Consumer(name), inbox.Pool(pool), handlers, cfg)
	return s, err
}

// Run handles what the other services say until ctx ends.
func (s *Service) Run(ctx context.Context, cfg kafka.Config) error {
	consumer, err := kafka.NewConsumer(s.processor, kafka.ConsumerConfig{
		Config: cfg, Topics: []string{s.shop.Orders()},
		// One that is killed and comes back goes on at once: the group does not wait for the end of its session.
		Instance: name + "-1",
	})
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

// take moves the money of an order. The transaction is committed with the note that the event is handled: all of it or nothing.
func (s *Service) take(ctx context.Context, tx pgx.Tx, e inbox.Event[contract.OrderPlaced]) error {
	order := e.Payload
	var balance int64
	err := tx.QueryRow(ctx, `SELECT balance FROM account WHERE customer = $1 FOR UPDATE`, order.Customer).Scan(&balance)
	if err != nil {
		return fmt.Errorf("find the account of %s: %w", order.Customer, err)
	}
	if balance < order.Amount {
		return s.write(ctx, tx, order.OrderID, contract.PaymentDeclinedType, contract.PaymentDeclined{OrderID: order.OrderID, Reason: "the account is too low"})
	}
	if _, err := tx.Exec(ctx, `UPDATE account SET balance = balance - $2 WHERE customer = $1`, order.Customer, order.Amount); err != nil {
		return fmt.Errorf("take the money: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO payment (order_id, customer, amount) VALUES ($1, $2, $3)`, order.OrderID, order.Customer, order.Amount)
	if err != nil {
		return fmt.Errorf("write down the payment: %w", err)
	}
	return s.write(ctx, tx, order.OrderID, contract.OrderPaidType, contract.OrderPaid{OrderID: order.OrderID, Amount: order.Amount})
}

func (s *Service) write(ctx context.Context, tx pgx.Tx, order, kind string, payload any) error {
	_, err := s.events.Write(ctx, tx, outbox.Event{AggregateType: "Payment", AggregateID: order, Type: kind, Payload: payload})
	return err
}
