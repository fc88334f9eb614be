package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/migrate"
)

const (
	partitions = 12
	// cleanupLimit bounds what is done when the context has ended.
	cleanupLimit = 10 * time.Second
)

// stand is where the measuring is done: both servers, and clients of the bench itself.
type stand struct {
	server  *devpg.Server
	cluster *devkafka.Cluster
	pool    *pgxpool.Pool
	table   *outboxTable // the one that most runs use
	client  *kgo.Client
	admin   *kadm.Client
	topics  int // how many were made
}

// openStand starts the servers and makes the tables. The caller must Close the stand.
func openStand(ctx context.Context, version string) (*stand, error) {
	s := &stand{}
	for _, step := range []func() error{
		func() error { return s.startPostgres(ctx, version) },
		func() error { return s.startKafka(ctx) },
		func() error { return s.makeTables(ctx) },
	} {
		if err := step(); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// startPostgres gives the server room enough that no checkpoint falls into one run and not into the next.
func (s *stand) startPostgres(ctx context.Context, version string) (err error) {
	s.server, err = devpg.Start(ctx, devpg.Options{
		Version: version,
		Durable: true,
		Params:  map[string]string{"shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "1h"},
	})
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	if s.pool, err = pgxpool.New(ctx, s.server.URL("postgres")); err != nil {
		return fmt.Errorf("make pool: %w", err)
	}
	return nil
}

func (s *stand) startKafka(ctx context.Context) (err error) {
	if s.cluster, err = devkafka.Start(ctx, devkafka.Options{OnDisk: true, Config: map[string]string{"log.segment.delete.delay.ms": "1000"}}); err != nil {
		return err
	}
	if s.client, err = kgo.NewClient(kgo.SeedBrokers(s.cluster.Brokers()...)); err != nil {
		return fmt.Errorf("make Kafka client: %w", err)
	}
	s.admin = kadm.NewClient(s.client)
	return nil
}

// makeTables makes the outbox and the business table, one row for each key.
func (s *stand) makeTables(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.server.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := migrate.Up(ctx, conn, migrate.Config{}); err != nil {
		return err
	}
	const sql = `CREATE TABLE bench_order (id text PRIMARY KEY, version bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);
INSERT INTO bench_order (id) SELECT i::text FROM generate_series(0, %d) i`
	if _, err := conn.Exec(ctx, fmt.Sprintf(sql, keys-1)); err != nil {
		return fmt.Errorf("make business table: %w", err)
	}
	s.table = &outboxTable{pool: s.pool, name: "outbox_event"}
	return nil
}

// Close ends both servers.
func (s *stand) Close() {
	if s.client != nil {
		s.client.Close()
	}
	if s.cluster != nil {
		_ = s.cluster.Close()
	}
	if s.pool != nil {
		s.pool.Close()
	}
	if s.server != nil {
		_ = s.server.Cleanup()
	}
}

// newTopic makes a topic for one run; what happened in another run is not in it. The broker stamps each record when it appends it.
func (s *stand) newTopic(ctx context.Context) (string, error) {
	s.topics++
	name := fmt.Sprintf("bench-service.order.confirmed-%d", s.topics)
	return name, s.makeTopic(ctx, name)
}

func (s *stand) makeTopic(ctx context.Context, name string) error {
	stamp := "LogAppendTime"
	made, err := s.admin.CreateTopics(ctx, partitions, 1, map[string]*string{"message.timestamp.type": &stamp}, name)
	if err == nil {
		err = made[name].Err
	}
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return nil
}

// dropTopic gives the disk back. It works also when the run was interrupted.
func (s *stand) dropTopic(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
	defer cancel()
	dropped, err := s.admin.DeleteTopics(ctx, name)
	if err == nil {
		err = dropped[name].Err
	}
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	return nil
}

// withTopic gives do a topic of its own.
func (s *stand) withTopic(ctx context.Context, do func(topic string) error) error {
	topic, err := s.newTopic(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(topic), s.dropTopic(ctx, topic))
}
