package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// subject is one of the things that are compared. Each run begins cold, with connections of its own: what it takes to open and to close
// them is part of the run, for all alike.
type subject struct {
	name string
	// run publishes until nothing is left, or, for a subject that follows the table, until ctx ends.
	run func(ctx context.Context) error
}

// warmUp lets each subject run once without counting: both servers are slower when they have just started, and what comes first would pay
// for it. A smoke test saves the time.
func (b *bench) warmUp(subjects []subject, run func(subject) error) error {
	if b.smoke {
		return nil
	}
	for _, s := range subjects {
		if err := run(s); err != nil {
			return fmt.Errorf("warm up %s: %w", s.name, err)
		}
	}
	return nil
}

// relayOnce is the relay, embedded, until the backlog is gone.
func (b *bench) relayOnce(settle postgres.SettleMode) subject {
	return subject{"relay, " + settle.String(), b.embed(postgres.Config{Settle: settle}, relay.Config{Once: true})}
}

// relayFollowing is the relay with its defaults.
func (b *bench) relayFollowing() subject {
	return subject{"relay", b.embed(postgres.Config{Settle: postgres.Mark}, relay.Config{})}
}

func (b *bench) embed(table postgres.Config, cfg relay.Config) func(context.Context) error {
	log := warnings(b.progress)
	table.Logger, cfg.Logger = log, log
	return func(ctx context.Context) error {
		source, err := postgres.New(b.stand.pool, table)
		if err != nil {
			return err
		}
		publisher, err := kafka.NewPublisher(kafka.Config{Brokers: b.stand.cluster.Brokers(), Logger: log})
		if err != nil {
			return err
		}
		engine, err := relay.New(source, publisher, cfg)
		if err != nil {
			return err
		}
		return engine.Run(ctx)
	}
}

// warnings shows only what should not happen here.
func warnings(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// referenceOnce is the reference's algorithm without any pause, until it finds nothing.
func (b *bench) referenceOnce() subject {
	r := b.reference(0)
	return subject{"reference, no pause", r.drain}
}

// referenceFollowing is the reference's algorithm that pauses after a batch that was not full. The reference itself pauses after every
// batch, and so would fall behind at 100 events a second.
func (b *bench) referenceFollowing(pause time.Duration) subject {
	r := b.reference(pause)
	return subject{fmt.Sprintf("reference, every %s", pause), r.follow}
}

func (b *bench) reference(pause time.Duration) reference {
	return reference{database: b.stand.server.URL("postgres"), brokers: b.stand.cluster.Brokers(), pause: pause}
}
