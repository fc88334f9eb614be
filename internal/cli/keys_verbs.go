package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

// keyVerbFlags are those of a verb on parked keys.
type keyVerbFlags struct {
	database
	bulkFlags
	keyFilter
	wait time.Duration
}

func (a *app) keysUnpark() *cobra.Command {
	return a.keysVerb(operate.VerbUnpark, "Try parked keys again, from the events that stopped them", "",
		`  outbox keys unpark --topic order-service.order.confirmed --key order-17
  outbox keys unpark --topic order-service.order.confirmed --code MESSAGE_TOO_LARGE
  outbox keys unpark --all --yes`)
}

func (a *app) keysSkip() *cobra.Command {
	return a.keysVerb(operate.VerbSkip, "Give up the events that stop keys, and let the keys go on", `

The events are moved whole to outbox.dead_event, which needs the right to delete
rows: outbox migrate grants --role relay --delete for the relay's role, and with
no relay alive outbox migrate grants --role anna --operator --delete for yours.`,
		`  outbox keys skip --topic order-service.order.confirmed --key order-17 --reason "sent by hand"
  outbox keys skip --topic order-service.order.confirmed --older-than 24h --reason "too old" --dry-run`)
}

func (a *app) keysVerb(verb operate.Verb, short, note, example string) *cobra.Command {
	f := &keyVerbFlags{}
	cmd := &cobra.Command{
		Use:   string(verb),
		Short: short,
		Long: short + `.

--topic and --key name one key, the other flags all that match. The relay that holds the
lease carries it out when nothing of the key is in flight; with no relay alive, or
relays of mode competing, this command does.` + note + `

` + bulkHelp,
		Example: example,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runKeysVerb(cmd, verb, f) },
	}
	f.database.flags(cmd)
	f.keyFilter.flags(cmd)
	reason := "why, for the audit"
	if verb == operate.VerbSkip {
		reason += "; needed, it is kept with the events"
	}
	f.bulkFlags.flags(cmd, reason, "parked keys")
	cmd.Flags().DurationVar(&f.wait, "wait", operate.DefaultWait, "how long to wait until a single key is done")
	return cmd
}

func (a *app) runKeysVerb(cmd *cobra.Command, verb operate.Verb, f *keyVerbFlags) error {
	if err := f.narrowed(cmd, nil); err != nil {
		return err
	}
	if err := f.needsReason(verb); err != nil {
		return err
	}
	if err := a.refuse(cmd, append(f.keyFilter.checks(), above("wait", &f.wait, 0))); err != nil {
		return err
	}
	filter, err := f.filter(cmd)
	if err != nil {
		return err
	}
	s, done, err := a.service(cmd, &f.database)
	if err != nil {
		return err
	}
	defer done()
	one := filter == operate.KeyFilter{Topic: filter.Topic, PartitionKey: filter.PartitionKey} && filter.Topic != nil && filter.PartitionKey != nil
	if one && !f.dryRun {
		return a.act(cmd, s, &f.bulkFlags, operate.Action{Verb: verb, Topic: f.topic, PartitionKey: f.key, Reason: f.reason, Wait: f.wait})
	}
	b := operate.Bulk{Verb: verb, Keys: &filter, Reason: f.reason}
	return a.bulk(cmd, s, &f.bulkFlags, b, func(ctx context.Context, c operate.Confirmed, progress func(operate.Progress)) (operate.Report, error) {
		return s.Run(ctx, f.actor(), b, c, progress)
	})
}
