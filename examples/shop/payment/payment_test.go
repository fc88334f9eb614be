package payment

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/examples/shop/contract"
	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/outboxtest"
)

const shop = contract.Shop("test")

func TestAnOrderIsPaidOnceHoweverOftenItIsDelivered(t *testing.T) {
	t.Parallel()
	pool, brokers := database(t), outboxtest.Kafka(t)
	s := service(t, pool)
	publish(t, pool, contract.OrderPlacedType, contract.OrderPlaced{OrderID: "order-1", Customer: "anna", Amount: 30_00})
	outboxtest.Drain(t, pool, brokers)

	outboxtest.RequireConsumed(t, s.processor, brokers, shop.Orders())
	if again := outboxtest.RequireConsumed(t, s.processor, brokers, shop.Orders()); again.Repeats != 1 {
		t.Errorf("the second delivery: %+v, want a repeat", again)
	}
	if got := balance(t, pool, "anna"); got != 70_00 {
		t.Errorf("balance %d, want 7000", got)
	}
}

func TestTheMoneyIsTakenAndSaidToBe(t *testing.T) {
	t.Parallel()
	pool := database(t)
	tx := begin(t, pool)
	placed := contract.OrderPlaced{OrderID: "order-1", Customer: "anna", Amount: 30_00}
	if err := service(t, pool).take(t.Context(), tx, inbox.Event[contract.OrderPlaced]{Payload: placed}); err != nil {
		t.Fatal(err)
	}
	outboxtest.RequireWritten(t, tx, outboxtest.Want{
		Type: contract.OrderPaidType, Topic: shop.Payments(), Key: "order-1", Payload: `{"orderId": "order-1", "amount": 3000}`,
	})
}

func TestAnAccountThatIsTooLowIsLeftAlone(t *testing.T) {
	t.Parallel()
	pool := database(t)
	tx := begin(t, pool)
	placed := contract.OrderPlaced{OrderID: "order-1", Customer: "anna", Amount: 100_01}
	if err := service(t, pool).take(t.Context(), tx, inbox.Event[contract.OrderPlaced]{Payload: placed}); err != nil {
		t.Fatal(err)
	}
	outboxtest.RequireWritten(t, tx, outboxtest.Want{Type: contract.PaymentDeclinedType, Key: "order-1"})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := balance(t, pool, "anna"); got != 100_00 {
		t.Errorf("balance %d, want 10000", got)
	}
}

func TestAnOrderOfNobodyFails(t *testing.T) {
	t.Parallel()
	pool, brokers := database(t), outboxtest.Kafka(t)
	publish(t, pool, contract.OrderPlacedType, contract.OrderPlaced{OrderID: "order-1", Customer: "nobody", Amount: 1})
	outboxtest.Drain(t, pool, brokers)
	if got := outboxtest.Consume(t, service(t, pool).processor, brokers, shop.Orders()); len(got.Failed) != 1 || got.Handled != 0 {
		t.Errorf("got %+v, want one failed record", got)
	}
}

func service(t *testing.T, pool *pgxpool.Pool) *Service {
	t.Helper()
	s, err := New(pool, shop, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// publish writes an event as the order service would. A test has one database only: it serves for both.
func publish(t *testing.T, pool *pgxpool.Pool, kind string, order contract.OrderPlaced) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := outbox.Write(t.Context(), tx, outbox.Event{AggregateType: "Order", AggregateID: order.OrderID, Type: kind, Topic: shop.Orders(), Payload: order})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func balance(t *testing.T, pool *pgxpool.Pool, customer string) (cents int64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT balance FROM account WHERE customer = $1`, customer).Scan(&cents); err != nil {
		t.Fatal(err)
	}
	return cents
}
