package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/operate"
)

// keyVerbFlags are those of a verb on parked keys.
type keyVerbFlags struct {
	database
	bulkFlags
	topic, key, typ, code, failed string
	olderThan, newerThan, wait    time.Duration
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
	fs := cmd.Flags()
	fs.StringVar(&f.topic, "topic", "", "the key's `topic`")
	fs.StringVar(&f.key, "key", "", "the partition `key`")
	fs.StringVar(&f.typ, "type", "", "the `type` of the event that stops the key")
	fs.StringVar(&f.code, "code", "", "the `code` of the error, such as MESSAGE_TOO_LARGE")
	fs.StringVar(&f.failed, "error", "", "a `part` of the error or its code, in any case")
	config.AgeVar(fs, &f.olderThan, "older-than", 0, "parked at least so long ago, such as 24h or 7d")
	config.AgeVar(fs, &f.newerThan, "newer-than", 0, "parked at most so long ago, such as 15m")
	f.bulkFlags.flags(cmd, "why, for the audit; needed to skip", "parked keys")
	fs.DurationVar(&f.wait, "wait", operate.DefaultWait, "how long to wait until a single key is done")
	return cmd
}

func (a *app) runKeysVerb(cmd *cobra.Command, verb operate.Verb, f *keyVerbFlags) error {
	if err := f.narrowed(cmd, nil); err != nil {
		return err
	}
	if err := needsReason(verb, f.reason); err != nil {
		return err
	}
	if err := a.refuse(cmd, []check{above("wait", &f.wait, 0), atLeast("older-than", &f.olderThan, 0), atLeast("newer-than", &f.newerThan, 0)}); err != nil {
		return err
	}
	given := func(flag string, value *string) *string {
		if !cmd.Flags().Changed(flag) {
			return nil
		}
		return value
	}
	filter := operate.KeyFilter{
		Topic: given("topic", &f.topic), PartitionKey: given("key", &f.key), Type: given("type", &f.typ), Code: given("code", &f.code),
		Error: f.failed, MinAge: f.olderThan, MaxAge: f.newerThan,
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
