package cli

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

func (a *app) keys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Look at parked keys, and let them go on",
		Long: `A key (topic and partition key) is parked when one of its events can never be
published as it is, such as one that is larger than its topic allows. The key's
later events wait behind it; all other keys go on. A relay of mode competing parks
no key: it tries the event again by itself, and says so in its log; what was parked
before stays so.

Mend the cause (raise the topic's max.message.bytes, correct the row) and unpark
the key: its events are published in order. Or skip the event: it is moved whole
to outbox.dead_event, and the key goes on without it.`,
		Example: `  outbox keys list
  outbox keys unpark --topic order-service.order.confirmed --key order-17
  outbox keys skip --topic order-service.order.confirmed --key order-17 --reason "too large, sent by hand"`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.keysList(), a.keysVerb(postgres.VerbUnpark, "Try a parked key again, from the event that stopped it", "",
		"  outbox keys unpark --topic order-service.order.confirmed --key order-17"),
		a.keysVerb(postgres.VerbSkip, "Give up the event that stops a key, and let the key go on", `

The event is moved whole to outbox.dead_event, which needs the right to delete
rows: outbox migrate grants --role relay --delete for the relay's role, and with
no relay alive outbox migrate grants --role anna --operator --delete for yours.`,
			`  outbox keys skip --topic order-service.order.confirmed --key order-17 --reason "sent by hand"`))
	return cmd
}

type keyFlags struct {
	database
	key    relay.Key
	reason string
	wait   time.Duration
}

func (a *app) keysVerb(verb, short, note, example string) *cobra.Command {
	f := &keyFlags{}
	cmd := &cobra.Command{
		Use:   verb,
		Short: short,
		Long: short + `.

The relay that holds the lease carries it out when nothing of the key is in
flight; with no relay alive, or relays of mode competing, this command does.` + note,
		Example: example,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("topic") || !cmd.Flags().Changed("key") {
				return &usageError{fmt.Errorf("--topic and --key are needed; outbox keys list shows them; see %s --help", cmd.CommandPath())}
			}
			if verb == postgres.VerbSkip && f.reason == "" {
				return &usageError{errors.New("--reason is needed: it is kept with the event that is given up")}
			}
			if problems := a.problems(cmd, []check{above("wait", &f.wait, 0)}); problems != nil {
				return &configError{errors.Join(problems...)}
			}
			return a.requestKey(cmd, verb, f)
		},
	}
	f.database.flags(cmd)
	cmd.Flags().StringVar(&f.key.Topic, "topic", "", "the key's `topic`")
	cmd.Flags().StringVar(&f.key.PartitionKey, "key", "", "the partition `key`")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for the record")
	cmd.Flags().DurationVar(&f.wait, "wait", 30*time.Second, "how long to wait until it is done")
	return cmd
}

func (a *app) requestKey(cmd *cobra.Command, verb string, f *keyFlags) error {
	operator, done, err := a.operator(cmd, &f.database)
	if err != nil {
		return err
	}
	defer done()
	id, err := operator.Request(cmd.Context(), verb, f.key, operatorName(), f.reason)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.wait)
	defer cancel()
	outcome, err := operator.Await(ctx, id)
	if err != nil {
		return err
	}
	if outcome.Problem != "" {
		return hinted(fmt.Errorf("%s key %q of topic %s: %s", verb, f.key.PartitionKey, f.key.Topic, outcome.Problem),
			"outbox keys list shows what is parked")
	}
	_, err = fmt.Fprintf(a.stdout, "%s: if the cause is still there the key is parked again; see outbox keys list\n", printable(outcome.Text))
	return err
}

func operatorName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// abridged keeps a line readable whatever a row holds; --json shows all of it.
func abridged(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:cut], len(s))
}

// printable shows a text from the database without what a terminal would obey.
func printable(s string) string {
	quoted := strconv.Quote(s)
	if quoted == `"`+s+`"` && s != "" {
		return s
	}
	return quoted
}
