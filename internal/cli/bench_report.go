package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/benchmark"
	"github.com/outbox-relay/outbox/internal/config"
)

// describeBench says what a run will make. The address has neither user nor password.
func (a *app) describeBench(p benchmark.Plan, source *config.Source, pool *pgxpool.Pool) {
	cc := pool.Config().ConnConfig
	w := tabwriter.NewWriter(a.stderr, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %s\t"+format+"\n", append([]any{name}, args...)...)
	}
	fmt.Fprintln(w, "outbox bench works in")
	line("database", "%s/%s", address(&cc.Config), printable(cc.Database))
	line("brokers", "%s", strings.Join(source.Brokers, ","))
	fmt.Fprintln(w, "it makes, and removes at its end,")
	line("schema", "%s, with the tables outbox_event and business: about %s, %s", p.Schema, plural(p.Events, "row"), megabytes(p.Bytes))
	line("source", "a row of outbox.source for that table, and its lanes")
	line("topic", "%s, %s, %s", p.Topic, orDefault(p.Partitions, "partition"), orDefault(p.Replication, "replica"))
	for _, schema := range p.Leftovers.Schemas {
		line("removes", "schema %s with its source, left by a run that was killed", schema)
	}
	for _, topic := range p.Leftovers.Topics {
		line("removes", "topic %s, left by a run that was killed", topic)
	}
	if p.StateSchema {
		fmt.Fprintln(w, "it makes, and leaves,")
		line("schema", "outbox, which this database lacks, as outbox migrate up makes it; where nobody uses it: %s", benchmark.StateRemoval)
	}
	fmt.Fprintf(w, "It takes about %d s, and puts load on both.\n", p.Seconds)
	// Nobody could be told of an error here.
	_ = w.Flush()
}

func orDefault(n int, noun string) string {
	if n <= 0 {
		return noun + "s as the brokers have it by default"
	}
	return plural(n, noun)
}

func megabytes(n int64) string { return fmt.Sprintf("%.0f MB", max(1, float64(n)/1e6)) }

// printBench prints a figure a line, and then what limits them.
func (a *app) printBench(r benchmark.Report) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	d := r.Drain
	line("drain", "%.0f events/s: %d events in %.2f s, after a start of %.2f s", d.PerSecond, d.Events, d.Seconds, d.Start)
	l := r.Latency
	line("latency", "%s from COMMIT to acknowledged, of %d at %.0f a second", percentiles(l.Took), l.Events, l.Reached)
	c := r.Writer
	line("writer", "%.2f times a transaction without an event: p50 %s instead of %s, of %d each", c.Ratio, inMillis(c.WithEvent.P50), inMillis(c.Plain.P50), c.Transactions)
	fmt.Fprintln(w)
	db := r.Database
	line("database", "PostgreSQL %s, fsync %s, synchronous_commit %s", db.Version, db.Fsync, db.SynchronousCommit)
	line("  round trip", "%s", percentiles(db.RoundTrip))
	line("  commit", "%s; %s of p50 is the wait for the disk and for standbys", percentiles(db.Commit), inMillis(db.Sync()))
	k := r.Kafka
	line("kafka", "%s, %s", orDefault(k.Partitions, "partition"), orDefault(k.Replication, "replica"))
	line("  round trip", "%s", percentiles(k.RoundTrip))
	line("  acks=all", "%s for a single record", percentiles(k.Produce))
	line("relay", "while it drained")
	line("  reading", "%.0f %% of the time, %.1f ms a statement", 100*d.Reading, d.Read)
	line("  settling", "%.0f %% of the time, %.1f ms a statement", 100*d.Settling, d.Settle)
	line("  in flight", "%.0f %% of the limit in the mean, %.0f %% of them with Kafka; an event was there for %.1f ms%s", 100*d.InFlight, 100*d.OutWith, d.Publish, sinceStart(d))
	if d.Processors >= 0 {
		line("  processor", "%.2f of %d", d.Processors, d.Cores)
	}
	fmt.Fprintln(w)
	for _, limit := range r.Limits {
		line("limit", "%s: %s", limit.Of, limit.Text)
	}
	return w.Flush()
}

// sinceStart explains a mean that is longer than what it is a part of: the drain counts from the first acknowledgement on, the first records were sent before.
func sinceStart(d benchmark.Drain) string {
	if d.Publish <= 1000*d.Seconds {
		return ""
	}
	return ", most of it before the first acknowledgement"
}

func percentiles(s benchmark.Spread) string {
	return fmt.Sprintf("p50 %s, p95 %s, p99 %s", inMillis(s.P50), inMillis(s.P95), inMillis(s.P99))
}

func inMillis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
