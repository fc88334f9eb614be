package cli

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres"
)

type replayFlags struct {
	bulkFlags
	eventFilter
	chosenSource
	rate int
}

// replaySettings are the relay's settings that a replay needs.
func replaySettings() []string {
	return []string{"config", "database-url", "table", "brokers", "client-id", "tls", "sasl-mechanism", "sasl-username", "compression", "verbose"}
}

func (a *app) replay() *cobra.Command {
	f := &replayFlags{}
	cmd := &cobra.Command{
		Use:   "replay [ID…]",
		Short: "Publish settled events again, under their ids",
		Long: `replay publishes events again that are published already: those with the given ids, or
those that the flags find, in the order of their ids, at --rate events a second. Their
records are those that the relay made, with one header more: x-outbox-replay, the job's
id. Consumers that keep an inbox skip what they have handled unless their inbox has
forgotten it, as one does whose Retain is shorter than the events are old; the others
handle it again. New events of the same keys go on meanwhile, so a replayed event comes
behind newer ones.

Unpublished events are never touched. Rows that were deleted are not there any more:
they count as not found. This command publishes itself, and needs the brokers; no relay
has to be alive.

` + bulkHelp,
		Example: `  outbox replay 4711 4712 --reason "lost by the consumer"
  outbox replay --topic order-service.order.confirmed --from 2030-01-31 --until 2030-02-01 --reason "a new consumer" --dry-run
  outbox replay --type order.confirmed.v1 --newer-than 1h --rate 200 --reason "lost" --yes`,
		Args:        cobra.ArbitraryArgs,
		Annotations: map[string]string{collects: "environment"},
		RunE:        func(cmd *cobra.Command, args []string) error { return a.runReplay(cmd, f, args) },
	}
	f.chosenSource.flags(cmd, replaySettings())
	f.eventFilter.flags(cmd)
	f.bulkFlags.flags(cmd, "why, for the audit; needed", "settled events")
	cmd.Flags().IntVar(&f.rate, "rate", operate.DefaultReplayRate, "events a second")
	return cmd
}

func (a *app) runReplay(cmd *cobra.Command, f *replayFlags, args []string) error {
	if err := a.fromEnvironmentBut(cmd, replaySettings()); err != nil {
		return &configError{err}
	}
	if err := f.narrowed(cmd, args); err != nil {
		return err
	}
	if err := f.needsReason(operate.VerbReplay); err != nil {
		return err
	}
	if err := a.refuse(cmd, []check{between("rate", &f.rate, 1, operate.MaxReplayRate)}); err != nil {
		return err
	}
	filter, err := f.filter(a, cmd, args)
	if err != nil {
		return err
	}
	s, publisher, done, err := a.replayer(cmd, f)
	if err != nil {
		return err
	}
	defer done()
	b := operate.Bulk{Verb: operate.VerbReplay, Events: &filter, Reason: f.reason}
	return a.bulk(cmd, s, &f.bulkFlags, b, func(ctx context.Context, c operate.Confirmed, progress func(operate.Progress)) (operate.Report, error) {
		return s.Replay(ctx, f.actor(), b, f.rate, c, publisher, progress)
	})
}

// replayer makes the service and the publisher of the source; done closes their connections.
func (a *app) replayer(cmd *cobra.Command, f *replayFlags) (*operate.Service, *kafka.Replayer, func(), error) {
	source, err := f.chosen(cmd.Context(), a)
	if err != nil {
		return nil, nil, nil, settingsError(cmd, err)
	}
	pool, password, err := a.poolOf(cmd.Context(), cmd, source)
	if err != nil {
		return nil, nil, nil, settingsError(cmd, err)
	}
	a.password = password
	p := &part{cfg: *source}
	publisher, err := kafka.NewReplayer(p.kafka(a.logger(a.remarks(), slog.LevelWarn)))
	var service *operate.Service
	if err == nil {
		var store *postgres.Store
		if store, err = postgres.NewStore(pool, postgres.Config{Table: source.Table}); err == nil {
			service, err = operate.New(store, nil, operate.Config{})
		}
	}
	if err != nil {
		closeSoon(pool)
		return nil, nil, nil, &configError{err}
	}
	return service, publisher, func() {
		publisher.Close()
		closeSoon(pool)
	}, nil
}
