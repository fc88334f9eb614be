package cli

import (
	"cmp"
	"context"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/fleet"
	"github.com/outbox-relay/outbox/relay"
)

func (a *app) relay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Publish the events of outbox tables to Kafka",
		Long: `relay publishes what services commit into the outbox table, until it is stopped.
A stop (SIGTERM or Ctrl-C) waits for what Kafka has not acknowledged yet, writes
it down and hands the lease to the next relay at once; after a crash the next
one waits until the lease has run out.

With --once it publishes what was committed when it began, shows its progress
on a terminal, and ends: with 0, or with 1 and the list of parked keys and
missing topics whose events remain. It does not wait for transactions that are
still open, and says how many there are.

With --config it reads a YAML file, in which settings go by the flags' names. A
list of sources there makes one process serve several tables or databases, each
by its own connections, limits and Kafka client: when one fails, the others go
on, and it is tried again. The process ends when none of them comes up.

A published row stays in the table unless --settle delete removes it, or --retain
168h deletes it when it is that old; one relay of the table does that, in the
background. Its role needs the grants with --delete.

With --mode competing it locks rows with SKIP LOCKED, publishes them and marks
them in one transaction, in batches of 50, for a migration: it may run beside
relays that do the same, and nothing is published twice while all of them live.
It keeps no order between relays. It does not start while a relay of mode leased
has lanes, and such a relay does not start while this one lives.`,
		Example: `  DATABASE_URL=postgres://relay@db/shop KAFKA_BROKERS=kafka:9092 outbox relay --listen :9090
  outbox relay --once
  outbox relay --table orders.outbox_event --settle delete --poll-interval 20ms
  outbox relay --retain 168h --retain-dead 2160h
  outbox relay --config outbox.yaml
  outbox relay --mode competing`,
		Annotations: map[string]string{collects: "environment"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.runRelay(cmd) },
	}
	cmd.SetHelpTemplate(cmd.HelpTemplate() + "\n" + settingsHelp + "\n")
	config.Flags(cmd.Flags())
	for _, s := range config.Settings() {
		if len(s.Words) > 0 {
			completeWords(cmd, s.Key, s.Words)
		}
	}
	// The error would be that there is no such flag.
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

func (a *app) runRelay(cmd *cobra.Command) error {
	cfg, err := config.Load(cmd.Context(), cmd.Flags(), config.Environment(a.env))
	bar := newProgress(a.stderr, "events")
	log := a.relayLogger(bar, cfg)
	if a.logsJSON(cfg.LogFormat) {
		a.ends = log
	}
	parts, err := a.parts(cmd.Context(), cfg, err, log)
	if err != nil {
		return settingsError(cmd, err)
	}
	defer closePools(parts)
	traces := a.trace(cmd.Context(), parts, log)
	defer traces.End(cmd.Context())
	warnOfLeased(parts)
	warnOfOnce(parts)
	relays := fleet.New(members(parts), fleet.Config{Once: cfg.Once})
	if cfg.Listen != "" {
		server, err := a.serve(cfg.Named("listen"), cfg.Listen, served{relays, cfg.Pprof}, log)
		if err != nil {
			return err
		}
		defer server.Close()
	}
	if cfg.Once {
		return a.drainOnce(cmd.Context(), relays, parts, bar)
	}
	announce(parts, log)
	unwatch, err := a.supervised(cmd.Context(), relays, log)
	if err != nil {
		return err
	}
	defer unwatch()
	defer retainAll(cmd.Context(), parts)()
	return runUntilStopped(cmd.Context(), relays, parts, log)
}

// announce says what this relay is, and what several sources need together: each has its own budget.
func announce(parts []*part, log *slog.Logger) {
	for _, p := range parts {
		p.announce()
	}
	if len(parts) < 2 {
		return
	}
	var names []string
	bytes := 0
	for _, p := range parts {
		names = append(names, p.cfg.Name)
		bytes += p.cfg.MaxInFlightBytes
	}
	log.Info("relaying several sources", "sources", strings.Join(names, ", "), "most_bytes_in_flight", bytes)
}

// announce says what goes from where to where, with neither user nor password.
func (p *part) announce() {
	c := p.pool.Config().ConnConfig
	p.log.Info("relay starts", append([]any{
		"relay", p.name, "version", version(), "mode", cmp.Or(p.cfg.Mode, "leased"), "table", p.cfg.Table,
		"database", address(&c.Config) + "/" + c.Database, "brokers", strings.Join(p.cfg.Brokers, ","),
	}, p.consequences()...)...)
}

// consequences are the settings that decide what becomes of an event, for the log: how it is settled, and what is done when it cannot be published. A competing relay knows no
// policies.
func (p *part) consequences() []any {
	list := []any{"settle", cmp.Or(p.cfg.Settle, "mark")}
	if p.cfg.Mode == modeCompeting {
		return list
	}
	return append(list, "on_failure", cmp.Or(strings.Join(p.cfg.OnFailure, ", "), relay.Park.String()), "park_scope", cmp.Or(p.cfg.ParkScope, relay.ScopeKey.String()))
}

// runUntilStopped says that the stop was heard, for it may take a while; the relays say how it ended.
func runUntilStopped(ctx context.Context, relays *relayFleet, parts []*part, log *slog.Logger) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		log.Info("stopping: waiting for what Kafka has not acknowledged")
		stop()
	})()
	err := relays.Run(running)
	if len(parts) > 1 {
		sayFailed(relays, parts)
	}
	return sourceErrors(err, len(parts) > 1)
}

// sayFailed has a line for each source that did not come up, or has left something behind.
func sayFailed(relays *relayFleet, parts []*part) {
	for i, s := range relays.States() {
		var published int64
		if s.Made {
			published = s.Engine.Stats().Published
		}
		if s.Err != nil {
			parts[i].log.Error("stopped", "published", published, "error", s.Err)
		}
	}
}
