package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/demo"
)

func (a *app) demo() *cobra.Command {
	var o demo.Options
	var db database
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a small shop: orders and their events, a relay, a consumer",
		Long: `demo opens a small shop: writers commit orders and their events and roll some
back, the relay publishes, a consumer reads, and at the end what was committed
is compared with what arrived. It ends with 1 if anything was lost or out of
order, or if an event of a rolled-back transaction arrived.

PostgreSQL is DATABASE_URL, else a server found on this machine, else one that
is fetched. Kafka is KAFKA_BROKERS, else one inside this process. In your own
database it works in a schema of its own, outbox_demo, which it makes anew and
leaves behind to be looked at, with a source of its own in the schema outbox; it
says how to drop them.`,
		Example: "  outbox demo\n  outbox demo --rate 500 --duration 30s\n  outbox demo --duration 10s --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.refuse(cmd, []check{
				above("rate", &o.Rate, 0), atLeast("duration", &o.Duration, 0),
				{"brokers", func() bool { return config.AreAddresses(o.Brokers) }, "host:port, such as localhost:9092"},
			}); err != nil {
				return err
			}
			if err := db.checkURL(a, cmd); err != nil {
				return settingsError(cmd, err)
			}
			o.DatabaseURL = db.url
			return a.runDemo(cmd.Context(), o, asJSON)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&o.Rate, "rate", 50, "business transactions a second")
	f.DurationVar(&o.Duration, "duration", 0, "end after this time; 0: at Ctrl-C")
	f.BoolVar(&asJSON, "json", false, "print only the summary, as one JSON object")
	f.StringVar(&db.url, "database-url", "", "PostgreSQL `URL` (DATABASE_URL); without it the demo runs its own server")
	f.StringSliceVar(&o.Brokers, "brokers", nil, "Kafka brokers, `host:port,...` (KAFKA_BROKERS); without them Kafka runs in this process")
	return cmd
}

func (a *app) runDemo(ctx context.Context, o demo.Options, asJSON bool) error {
	out := &lasting{first: a.stdout, second: a.stderr}
	o.Progress, o.Terminal, o.Logger = out, isTerminal(a.stdout), a.logger(a.remarks(), slog.LevelError)
	began := time.Now()
	if asJSON {
		o.Progress, o.Terminal = io.Discard, false
	}
	summary, err := demo.Run(ctx, o)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("stopped after %s, before the shop could open: %w", time.Since(began).Round(time.Second), err)
	}
	if err != nil {
		return err
	}
	if asJSON {
		if err := encodeTo(out, summary); err != nil {
			return fmt.Errorf("print summary: %w", err)
		}
	}
	if asJSON && summary.Uncommitted > 0 {
		return fmt.Errorf("%s of rolled-back transactions arrived", plural(summary.Uncommitted, "event"))
	}
	if !summary.Sound() {
		return &quietError{}
	}
	return nil
}

// lasting writes to the first until that fails, and from then on to the second: Ctrl-C ends the other programs of a pipe too, and what the
// demo found out must still be seen.
type lasting struct {
	first, second io.Writer
	failed        bool
}

// Write is of io.Writer.
func (l *lasting) Write(b []byte) (int, error) {
	if !l.failed {
		n, err := l.first.Write(b)
		if err == nil {
			return n, nil
		}
		l.failed = true
	}
	return l.second.Write(b)
}
