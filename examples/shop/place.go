package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/examples/shop/contract"
	"github.com/outbox-relay/outbox/examples/shop/order"
	"github.com/outbox-relay/outbox/examples/shop/payment"
	"github.com/outbox-relay/outbox/examples/shop/shipping"
	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/migrate"
)

// What the shop begins with.
const (
	partitions = 6
	customers  = 50
)

// opening is what is on each account at first, in cents: for so many orders a little less than they cost.
func opening(orders int) int64 { return 100_00 + 25_00*int64(orders)/customers }

// place is where the shop runs: a server with a database for each service, and brokers.
type place struct {
	server  *url.URL
	brokers []string
	shop    contract.Shop
	opening int64
	close   []func()
}

// Close ends what was started here.
func (p *place) Close() {
	for i := len(p.close) - 1; i >= 0; i-- {
		p.close[i]()
	}
}

// findPlace takes the server and the brokers that are given, and starts what is not.
func findPlace(ctx context.Context, o options, out io.Writer) (p *place, err error) {
	p = &place{brokers: o.Brokers, opening: opening(o.Orders), shop: contract.Shop("shop-" + strings.ToLower(rand.Text()[:6]))}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	databaseURL := o.DatabaseURL
	if databaseURL == "" {
		fmt.Fprintln(out, "starting PostgreSQL (set DATABASE_URL to use your own; the first time, its binaries may have to be fetched)")
		server, err := devpg.Start(ctx, devpg.Options{})
		if err != nil {
			return nil, fmt.Errorf("start PostgreSQL: %w; or set DATABASE_URL to a server that runs", err)
		}
		p.close = append(p.close, func() { _ = server.Cleanup() })
		databaseURL = server.URL("postgres")
	}
	if p.server, err = url.Parse(databaseURL); err != nil || p.server.Host == "" {
		return nil, fmt.Errorf("DATABASE_URL has to be an address like postgres://user@host:5432/database")
	}
	if len(p.brokers) == 0 {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			return nil, fmt.Errorf("start the Kafka in this process: %w; or set KAFKA_BROKERS to brokers that run", err)
		}
		p.close = append(p.close, cluster.Close)
		p.brokers = cluster.ListenAddrs()
	}
	return p, nil
}

// services are the names, in the order in which an order passes through.
var services = []string{"order", "payment", "shipping"}

// database is the address of a service's database.
func (p *place) database(service string) string {
	u := *p.server
	u.Path = "/" + p.databaseName(service)
	return u.String()
}

func (p *place) databaseName(service string) string {
	return strings.ReplaceAll("outbox_"+string(p.shop)+"_"+service, "-", "_")
}

// build makes the databases and the topics.
func (p *place) build(ctx context.Context) error {
	tables := map[string]string{"order": order.Tables, "payment": payment.Tables, "shipping": shipping.Tables}
	for _, service := range services {
		if err := p.buildDatabase(ctx, service, tables[service]); err != nil {
			return fmt.Errorf("make the database of %s: %w", service, err)
		}
	}
	return makeTopics(ctx, p.brokers, p.shop.Orders(), p.shop.Payments(), p.shop.Shipments())
}

func (p *place) buildDatabase(ctx context.Context, service, tables string) error {
	if err := p.admin(ctx, "CREATE DATABASE "+p.databaseName(service)); err != nil {
		return err
	}
	p.close = append(p.close, func() {
		_ = p.admin(context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+p.databaseName(service)+" WITH (FORCE)")
	})
	conn, err := pgx.Connect(ctx, p.database(service))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := migrate.Up(ctx, conn, migrate.Config{}); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, tables); err != nil {
		return err
	}
	if service == "payment" {
		_, err = conn.Exec(ctx, `INSERT INTO account (customer, balance) SELECT 'customer-' || n, $2 FROM generate_series(1, $1::int) n`, customers, p.opening)
	}
	return err
}

func (p *place) admin(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, p.server.String())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement)
	return err
}

func makeTopics(ctx context.Context, brokers []string, topics ...string) error {
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: brokers, CreateTopics: &kafka.TopicSpec{Partitions: partitions}})
	if err != nil {
		return err
	}
	defer publisher.Destroy()
	if err := publisher.Open(ctx); err != nil {
		return err
	}
	found, err := publisher.CheckTopics(ctx, topics)
	if err != nil {
		return err
	}
	for topic, err := range found {
		if err != nil {
			return fmt.Errorf("make topic %s: %w", topic, err)
		}
	}
	return nil
}
