package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

type relayFlags struct {
	database
	brokers
	cfg     relay.Config
	settle  string
	listen  string
	verbose bool
}

func (a *app) relay() *cobra.Command {
	f := &relayFlags{}
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Publish the events of an outbox table to Kafka",
		Long: `relay publishes what services commit into the outbox table, until it is stopped.
A stop (SIGTERM or Ctrl-C) waits for what Kafka has not acknowledged yet, writes
it down and hands the lease to the next relay at once; after a crash the next
one waits until the lease has run out.

With --once it publishes what was committed when it began, shows its progress
on a terminal, and ends: with 0, or with 1 and the list of parked keys and
missing topics whose events remain. It does not wait for transactions that are
still open, and says how many there are.`,
		Example: `  DATABASE_URL=postgres://relay@db/shop KAFKA_BROKERS=kafka:9092 outbox relay --listen :9090
  outbox relay --once
  outbox relay --table orders.outbox_event --settle delete --poll-interval 20ms`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runRelay(cmd, f) },
	}
	f.database.flags(cmd)
	f.brokers.flags(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&f.cfg.Once, "once", false, "publish what is there and end")
	fl.StringVar(&f.listen, "listen", "", "serve /livez, /readyz and /metrics at this `address`, such as :9090")
	fl.StringVar(&f.settle, "settle", "mark", "what becomes of a published row: mark (published_at is set) or delete")
	fl.DurationVar(&f.cfg.PollInterval, "poll-interval", 100*time.Millisecond, "longest wait between two looks at an idle table")
	fl.IntVar(&f.cfg.BatchSize, "batch-size", 2000, "most events in one read")
	fl.IntVar(&f.cfg.MaxInFlight, "max-in-flight", 20_000, "most events that are read and not settled")
	fl.IntVar(&f.cfg.MaxInFlightBytes, "max-in-flight-bytes", 32<<20, "most memory for them, in `bytes`")
	fl.DurationVar(&f.cfg.LeaseTTL, "lease-ttl", 15*time.Second, "how long after a crash the next relay waits, at least 5s")
	fl.DurationVar(&f.cfg.DrainTimeout, "drain-timeout", 10*time.Second, "how long a stop waits for Kafka's acknowledgements")
	fl.DurationVar(&f.cfg.SweepInterval, "sweep-interval", 30*time.Second, "how often the table is searched for forgotten events")
	fl.DurationVar(&f.cfg.StartTimeout, "start-timeout", 30*time.Second, "how long to try to reach database and brokers at first")
	fl.StringSliceVar(&f.cfg.Topics, "topics", nil, "topics that must exist when the relay starts, `name,…`")
	fl.BoolVar(&f.verbose, "verbose", false, "log more")
	return cmd
}

func (a *app) runRelay(cmd *cobra.Command, f *relayFlags) error {
	level := slog.LevelInfo
	if f.cfg.Once {
		level = slog.LevelWarn
	}
	if f.verbose {
		level = slog.LevelDebug
	}
	log := a.logger(level)
	parts, err := a.newRelay(cmd, f, log)
	if err != nil {
		return err
	}
	defer parts.pool.Close()
	if f.listen != "" {
		server, err := a.serve(f.listen, parts.engine, parts.source, log)
		if err != nil {
			return err
		}
		defer server.Close()
	}
	if f.cfg.Once {
		return a.drainOnce(cmd.Context(), parts.engine, parts.operator)
	}
	return parts.engine.Run(cmd.Context())
}

// relayParts are a wired relay. The operator looks at the same source for what the engine does not know.
type relayParts struct {
	pool     *pgxpool.Pool
	source   *postgres.Source
	operator *postgres.Operator
	engine   *relay.Relay
}

// newRelay wires a source, a publisher and the engine, and reports everything that is wrong with their settings together.
func (a *app) newRelay(cmd *cobra.Command, f *relayFlags, log *slog.Logger) (*relayParts, error) {
	p := &relayParts{}
	var publisher *kafka.Publisher
	var problems []error
	try := func(step func() error) {
		if err := step(); err != nil {
			problems = append(problems, err)
		}
	}
	try(func() (err error) { p.pool, err = f.pool(cmd.Context(), a, cmd); return err })
	try(func() (err error) { p.source, p.operator, err = f.source(p.pool, log); return err })
	try(func() (err error) { publisher, err = f.publisher(a, log); return err })
	try(func() (err error) {
		if publisher == nil || p.source == nil {
			return nil
		}
		f.cfg.Logger, f.cfg.Version = log, version()
		p.engine, err = relay.New(p.source, publisher, f.cfg)
		return err
	})
	if len(problems) == 0 {
		return p, nil
	}
	if p.pool != nil {
		p.pool.Close()
	}
	return nil, &configError{errors.Join(problems...)}
}

// source makes both sides of the source; without a pool there is nothing to say.
func (f *relayFlags) source(pool *pgxpool.Pool, log *slog.Logger) (*postgres.Source, *postgres.Operator, error) {
	mode, err := settleMode(f.settle)
	if pool == nil || err != nil {
		return nil, nil, err
	}
	cfg := postgres.Config{Table: f.table, Settle: mode, Logger: log}
	source, err := postgres.New(pool, cfg)
	if err != nil {
		return nil, nil, err
	}
	operator, err := postgres.NewOperator(pool, cfg)
	return source, operator, err
}

func (f *relayFlags) publisher(a *app, log *slog.Logger) (*kafka.Publisher, error) {
	cfg, err := f.brokers.config(a, f.cfg.LeaseTTL, log)
	if err != nil {
		return nil, err
	}
	return kafka.NewPublisher(cfg)
}

func settleMode(s string) (postgres.SettleMode, error) {
	switch s {
	case "mark":
		return postgres.Mark, nil
	case "delete":
		return postgres.Delete, nil
	}
	return 0, fmt.Errorf("--settle is %q: want mark or delete", s)
}
