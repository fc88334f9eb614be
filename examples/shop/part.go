package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/examples/shop/contract"
	"github.com/outbox-relay/outbox/examples/shop/order"
	"github.com/outbox-relay/outbox/examples/shop/payment"
	"github.com/outbox-relay/outbox/examples/shop/shipping"
	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// partVariable makes a process of this program one of the shop's: a service, such as payment, or its relay, payment-relay.
const partVariable = "SHOP_PART"

// leaseTTL is how long after a crash of a relay the next one waits.
const leaseTTL = 5 * time.Second

// part is one of the shop's processes.
type part struct {
	pool   *pgxpool.Pool
	shop   contract.Shop
	kafka  kafka.Config
	log    *slog.Logger
	orders int
	every  time.Duration
}

// runPart is the whole life of such a process. It ends with its standard input, and so with the process that started it.
func runPart(name string, in io.Reader, log io.Writer) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})).With("part", name)
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	p := &part{pool: pool, shop: contract.Shop(os.Getenv("SHOP_NAME")), log: logger}
	p.kafka = kafka.Config{Brokers: strings.Split(os.Getenv("KAFKA_BROKERS"), ","), ClientID: name, Logger: logger}
	var errOrders, errEvery error
	p.orders, errOrders = strconv.Atoi(os.Getenv("SHOP_ORDERS"))
	p.every, errEvery = time.ParseDuration(os.Getenv("SHOP_EVERY"))
	if err := errors.Join(errOrders, errEvery); err != nil {
		return fmt.Errorf("read the settings of %s: %w", name, err)
	}
	if strings.HasSuffix(name, "-relay") {
		return p.relay(ctx)
	}
	return p.service(ctx, name)
}

func (p *part) service(ctx context.Context, name string) error {
	cfg := inbox.Config{Logger: p.log}
	switch name {
	case "payment":
		s, err := payment.New(p.pool, p.shop, cfg)
		if err != nil {
			return err
		}
		return s.Run(ctx, p.kafka)
	case "shipping":
		s, err := shipping.New(p.pool, p.shop, cfg)
		if err != nil {
			return err
		}
		return s.Run(ctx, p.kafka)
	case "order":
		return p.orderService(ctx, cfg)
	}
	return fmt.Errorf("the shop has no service %q", name)
}

// orderService has the customers in its process as well.
func (p *part) orderService(ctx context.Context, cfg inbox.Config) error {
	s, err := order.New(p.pool, p.shop, cfg)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		err := s.Serve(ctx, nextOrder, p.orders, p.every)
		if err != nil {
			stop()
		}
		served <- err
	}()
	err = s.Run(ctx, p.kafka)
	stop()
	return errors.Join(err, <-served)
}

// nextOrder is what some customer wants.
func nextOrder() contract.OrderPlaced {
	return contract.OrderPlaced{OrderID: uuid.NewString(), Customer: fmt.Sprintf("customer-%d", 1+rand.IntN(customers)), Amount: 5_00 + rand.Int64N(50_00)}
}

// relay is the same for each service: it takes the events of its database to Kafka.
func (p *part) relay(ctx context.Context) error {
	source, err := postgres.New(p.pool, postgres.Config{Logger: p.log})
	if err != nil {
		return err
	}
	cfg := p.kafka
	cfg.LeaseTTL = leaseTTL
	publisher, err := kafka.NewPublisher(cfg)
	if err != nil {
		return err
	}
	engine, err := relay.New(source, publisher, relay.Config{LeaseTTL: leaseTTL, Logger: p.log})
	if err != nil {
		return err
	}
	return engine.Run(ctx)
}
