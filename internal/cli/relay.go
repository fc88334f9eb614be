package cli

import (
	"context"
	"errors"
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

// minLeaseTTL is the least that the engine takes.
const minLeaseTTL = 5 * time.Second

func (f *relayFlags) checks() []check {
	ttl := check{"lease-ttl", func() bool { return f.cfg.LeaseTTL >= minLeaseTTL }, "at least 5s"}
	return append(f.brokers.checks(),
		choice("settle", &f.settle, settleWords()...),
		above("poll-interval", &f.cfg.PollInterval, 0),
		above("batch-size", &f.cfg.BatchSize, 0),
		above("max-in-flight", &f.cfg.MaxInFlight, 0),
		above("max-in-flight-bytes", &f.cfg.MaxInFlightBytes, 0),
		ttl,
		above("drain-timeout", &f.cfg.DrainTimeout, 0),
		above("sweep-interval", &f.cfg.SweepInterval, 0),
		above("start-timeout", &f.cfg.StartTimeout, 0),
	)
}

func settleWords() []string { return []string{"mark", "delete"} }

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
		Annotations: map[string]string{collects: "environment"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.runRelay(cmd, f) },
	}
	cmd.SetHelpTemplate(cmd.HelpTemplate() + "\n" + settingsHelp + "\n")
	f.database.flags(cmd)
	f.brokers.flags(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&f.cfg.Once, "once", false, "publish what is there and end")
	fl.StringVar(&f.listen, "listen", "", "serve /livez, /readyz and /metrics at this `address`, such as :9090")
	wordsFlag(cmd, &f.settle, "settle", "mark", "%s: set a published row's published_at, or delete the row", settleWords()...)
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
	bar := newProgress(a.stderr, "events")
	log := a.logger(bar, level)
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
		return a.drainOnce(cmd.Context(), parts.engine, parts.operator, bar)
	}
	return runUntilStopped(cmd.Context(), parts.engine, log)
}

// runUntilStopped says that the stop was heard, for it may take a while, and how it ended.
func runUntilStopped(ctx context.Context, engine *relay.Relay, log *slog.Logger) error {
	heard := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		defer close(heard)
		log.Info("stopping: waiting for what Kafka has not acknowledged")
	})
	err := engine.Run(ctx)
	if !forget() {
		<-heard
	}
	if err == nil {
		log.Info("stopped", "published", engine.Stats().Published)
	}
	return err
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
	var problems []error
	if err := a.fromEnvironment(cmd); err != nil {
		problems = append(problems, err)
	}
	problems = append(problems, a.problems(cmd, f.checks())...)
	problems = append(problems, f.brokers.missing(a)...)
	pool, err := f.pool(cmd.Context(), a, cmd)
	if err != nil {
		problems = append(problems, err)
	}
	if len(problems) == 0 {
		parts, err := f.wire(a, pool, log)
		if err == nil {
			return parts, nil
		}
		problems = append(problems, err)
	}
	if pool != nil {
		pool.Close()
	}
	return nil, &configError{errors.Join(problems...)}
}

// wire joins the parts. What it refuses is a setting too.
func (f *relayFlags) wire(a *app, pool *pgxpool.Pool, log *slog.Logger) (*relayParts, error) {
	cfg := postgres.Config{Table: f.table, Settle: postgres.Mark, Logger: log}
	if f.settle == "delete" {
		cfg.Settle = postgres.Delete
	}
	source, err := postgres.New(pool, cfg)
	if err != nil {
		return nil, err
	}
	operator, err := postgres.NewOperator(pool, cfg)
	if err != nil {
		return nil, err
	}
	kafkaConfig := f.brokers.config(a, log)
	kafkaConfig.LeaseTTL = f.cfg.LeaseTTL
	publisher, err := kafka.NewPublisher(kafkaConfig)
	if err != nil {
		return nil, err
	}
	f.cfg.Logger, f.cfg.Version = log, version()
	engine, err := relay.New(source, publisher, f.cfg)
	if err != nil {
		return nil, err
	}
	return &relayParts{pool: pool, source: source, operator: operator, engine: engine}, nil
}
