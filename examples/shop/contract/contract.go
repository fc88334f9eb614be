// Package contract is what the services of the shop know of each other: the names of topics, and what the events hold.
package contract

import "github.com/outbox-relay/outbox"

// Types of events.
const (
	OrderPlacedType     = "order.placed.v1"
	OrderPaidType       = "order.paid.v1"
	PaymentDeclinedType = "payment.declined.v1"
	OrderShippedType    = "order.shipped.v1"
)

// OrderPlaced is published by the order service.
type OrderPlaced struct {
	OrderID  string `json:"orderId"`
	Customer string `json:"customer"`
	// Amount is in cents.
	Amount int64 `json:"amount"`
}

// OrderPaid is published by the payment service: the money was taken.
type OrderPaid struct {
	OrderID string `json:"orderId"`
	Amount  int64  `json:"amount"`
}

// PaymentDeclined is published by the payment service: nothing was taken.
type PaymentDeclined struct {
	OrderID string `json:"orderId"`
	Reason  string `json:"reason"`
}

// OrderShipped is published by the shipping service.
type OrderShipped struct {
	OrderID string `json:"orderId"`
}

// Shop is the name that the shop's topics and consumer groups begin with, so that several shops can share brokers.
type Shop string

// Topics says how a service derives its topics: one for all events of an aggregate type, so that they are in order.
func (s Shop) Topics(service string) outbox.Topics {
	return outbox.Topics{Service: string(s) + "-" + service, PerAggregate: true}
}

// Orders is the topic of the order service.
func (s Shop) Orders() string { return string(s) + "-order-service.order" }

// Payments is the topic of the payment service.
func (s Shop) Payments() string { return string(s) + "-payment-service.payment" }

// Shipments is the topic of the shipping service.
func (s Shop) Shipments() string { return string(s) + "-shipping-service.shipment" }

// Consumer is the name under which a service remembers what it has handled, and its consumer group.
func (s Shop) Consumer(service string) string { return string(s) + "-" + service }
