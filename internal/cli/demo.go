package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

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
database it works in a schema of its own, outbox_demo, which it makes anew.`,
		Example: "  outbox demo\n  outbox demo --rate 500 --duration 30s\n  outbox demo --duration 10s --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Rate <= 0 || o.Duration < 0 {
				return &usageError{fmt.Errorf("--rate must be above 0 and --duration not below it; see outbox demo --help")}
			}
			if onCommandLine(a, cmd, "database-url") && hasPassword(db.url) {
				return &configError{errPasswordOnCommandLine}
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
	f.StringSliceVar(&o.Brokers, "brokers", nil, "Kafka brokers, `host:port,…` (KAFKA_BROKERS); without them Kafka runs in this process")
	return cmd
}

func (a *app) runDemo(ctx context.Context, o demo.Options, asJSON bool) error {
	o.Progress, o.Terminal, o.Logger = a.stdout, isTerminal(a.stdout), a.logger(slog.LevelError)
	if asJSON {
		o.Progress, o.Terminal = io.Discard, false
	}
	began := time.Now()
	summary, err := demo.Run(ctx, o)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("stopped after %s, before the shop could open: %w", time.Since(began).Round(time.Second), err)
	}
	if err != nil {
		return err
	}
	if asJSON {
		if err := json.NewEncoder(a.stdout).Encode(summary); err != nil {
			return fmt.Errorf("print summary: %w", err)
		}
	}
	if !summary.Sound() {
		return &quietError{}
	}
	return nil
}
