package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/benchmark"
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres"
)

// benchFlags say what is to be measured.
type benchFlags struct {
	chosenSource
	events, size, keys, rate, partitions, replication int
	duration                                          time.Duration
	json, yes                                         bool
}

// benchSettings are those of the relay's settings that decide how quick it is, and whom it reaches. Its table is left alone.
func benchSettings() []string {
	reach := slices.DeleteFunc(dltSettings(), func(name string) bool { return name == "table" })
	return append(reach, "settle", "poll-interval", "batch-size", "max-in-flight", "max-in-flight-bytes", "lease-ttl", "start-timeout")
}

func (a *app) bench() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure your own database and cluster, in a scratch table and topic",
		Long: `bench measures, with the settings of the relay, what your database and your cluster
make possible, and says what limits it:

  drain     how quickly a relay works off a backlog, in events a second
  latency   from the answer to COMMIT to Kafka's acknowledgement, at a rate
  writer    what an event costs the transaction that writes it

before that single commits, single records and round trips, to tell where the time goes.

It makes a schema of its own, outbox_bench_…, with a table of events and one of business
rows, registers that as a source, and makes a topic, outbox-bench-…. It says so, asks
first, and removes all of it at the end, also after an error and at Ctrl-C. Where the
database has no schema outbox, it makes that too, as outbox migrate up does, and leaves
it, without a source: others may use it by then. It touches no table and no topic of
yours, and what others put into its schema stays, but it puts load on both sides, for
some 15 s by default: think twice in production.

What a run leaves that is killed (kill -9), the next one finds and removes; by hand:

  ` + benchmark.Removal("outbox_bench_…") + `
  kafka-topics.sh --delete --topic outbox-bench-…

The schema outbox, where nobody uses it, is removed by: ` + benchmark.StateRemoval + `

The role needs CREATE on the database, and to write into the schema outbox where there is
one: that of its owner does. The user needs CREATE, DELETE, WRITE and DESCRIBE on topics
that begin with outbox-bench-.`,
		Example: `  outbox bench
  outbox bench --events 500000 --size 2000 --settle delete
  outbox bench --rate 1000 --duration 30s --partitions 24 --replication 3 --yes --json`,
		Annotations: map[string]string{collects: "environment"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.runBench(cmd, f) },
	}
	f.chosenSource.flags(cmd, benchSettings())
	flags := cmd.Flags()
	flags.IntVar(&f.events, "events", 20_000, "how many events the backlog has")
	flags.IntVar(&f.size, "size", 350, "size of an event's payload, in `bytes`")
	flags.IntVar(&f.keys, "keys", 1000, "how many partition keys there are")
	flags.IntVar(&f.rate, "rate", 200, "transactions a second while latency is measured")
	flags.DurationVar(&f.duration, "duration", 5*time.Second, "how long latency is measured")
	flags.IntVar(&f.partitions, "partitions", 12, "partitions of the scratch topic; 0: the brokers' default")
	flags.IntVar(&f.replication, "replication", 0, "replicas of the scratch topic; 0: the brokers' default")
	flags.BoolVar(&f.json, "json", false, "print a JSON object")
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	return cmd
}

func (f *benchFlags) checks() []check {
	return []check{
		between("events", &f.events, 1, benchmark.MaxEvents), between("size", &f.size, benchmark.MinSize, benchmark.MaxSize), between("keys", &f.keys, 1, benchmark.MaxEvents),
		between("rate", &f.rate, 1, benchmark.MaxRate), between("partitions", &f.partitions, 0, 100_000), between("replication", &f.replication, 0, 1000),
		{"duration", func() bool { return f.duration >= time.Second && f.duration <= benchmark.MaxDuration }, fmt.Sprintf("1s to %s", benchmark.MaxDuration)},
	}
}

func (a *app) runBench(cmd *cobra.Command, f *benchFlags) error {
	if err := a.fromEnvironmentBut(cmd, benchSettings()); err != nil {
		return &configError{err}
	}
	if err := a.refuse(cmd, f.checks()); err != nil {
		return err
	}
	source, err := f.chosen(cmd.Context(), a)
	if err != nil {
		return settingsError(cmd, err)
	}
	pool, password, err := a.poolOf(cmd.Context(), cmd, source)
	if err != nil {
		return settingsError(cmd, err)
	}
	defer closeSoon(pool)
	a.password = password
	b, err := f.bench(a, source, pool)
	if err != nil {
		return &configError{err}
	}
	defer b.Close()
	plan, err := b.Plan(cmd.Context())
	if err != nil {
		return benchRights(err)
	}
	if err := a.agreeBench(cmd, f, plan, source, pool); err != nil {
		return err
	}
	report, failed := b.Run(cmd.Context())
	if report.StateSchema && !a.asJSON {
		fmt.Fprintln(a.stderr, "the schema outbox stays, without a source, for others may use it by now; where nobody does: "+benchmark.StateRemoval)
	}
	if report.Limits == nil {
		return benchEnded(cmd.Context(), failed)
	}
	// What was measured is worth to be seen, also when something could not be removed.
	if f.json {
		err = a.encode(report)
	} else {
		err = a.printBench(report)
	}
	if failed != nil {
		return benchEnded(cmd.Context(), failed)
	}
	return err
}

// bench makes the run of a source, with the relay's settings. What becomes of events that fail is not asked for: none does.
func (f *benchFlags) bench(a *app, source *config.Source, pool *pgxpool.Pool) (*benchmark.Bench, error) {
	s := *source
	s.Topics, s.OnFailure, s.CreateTopics, s.TopicPartitions, s.TopicReplication = nil, nil, true, f.partitions, f.replication
	p := &part{cfg: s}
	log := a.logger(a.remarks(), slog.LevelError)
	settings, err := p.engine(log)
	if err != nil {
		return nil, err
	}
	c := benchmark.Config{
		Pool: pool, Kafka: p.kafka(log), Relay: settings,
		Events: f.events, Size: f.size, Keys: f.keys, Rate: f.rate, Duration: f.duration, Logger: log,
	}
	if s.Settle == "delete" {
		c.Settle = postgres.Delete
	}
	if !a.asJSON {
		c.Progress = func(text string) { fmt.Fprintf(a.stderr, "%s …\n", text) }
	}
	return benchmark.New(c)
}

// benchRights makes a lack of rights one of configuration.
func benchRights(err error) error {
	if errors.Is(err, benchmark.ErrRights) || kafka.IsForbidden(err) {
		return &configError{&operate.Error{Code: operate.CodeForbidden, Text: err.Error()}}
	}
	return err
}

// benchEnded says of a run that was interrupted just that, and what could not be removed.
func benchEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return benchRights(err)
	}
	var removal *benchmark.RemovalError
	if errors.As(err, &removal) {
		return &benchmark.RemovalError{Cause: errors.New("interrupted"), Left: removal.Left}
	}
	return errors.New("interrupted: what was made is removed again")
}

// agreeBench says what will be made, and asks.
func (a *app) agreeBench(cmd *cobra.Command, f *benchFlags, plan benchmark.Plan, source *config.Source, pool *pgxpool.Pool) error {
	const advice = "--yes agrees for a script"
	switch {
	case f.yes && a.asJSON:
		return nil
	case a.asJSON:
		return &plannedError{unconfirmed("with --json nothing is asked: " + advice), plan}
	}
	a.describeBench(plan, source, pool)
	if f.yes {
		return nil
	}
	return a.confirm(cmd, "Go on?", advice)
}
