package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"text/tabwriter"
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

func (a *app) keysList() *cobra.Command {
	var db database
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the parked keys, each with the event that stops it",
		Example: "  outbox keys list\n  outbox keys list --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			operator, done, err := a.operator(cmd, &db)
			if err != nil {
				return err
			}
			defer done()
			parked, err := operator.Parked(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(parkedJSON(parked))
			}
			if err := a.printParked(parked); err != nil {
				return err
			}
			return a.printCompeting(cmd.Context(), operator)
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

type parkedObject struct {
	Topic        string    `json:"topic"`
	PartitionKey string    `json:"partition_key"`
	ID           string    `json:"id"`
	EventID      string    `json:"event_id"`
	EventType    string    `json:"event_type"`
	Code         string    `json:"code"`
	Reason       string    `json:"reason"`
	ParkedAt     time.Time `json:"parked_at"`
}

func parkedJSON(parked []relay.ParkedKey) []parkedObject {
	objects := []parkedObject{}
	for _, p := range parked {
		objects = append(objects, parkedObject{
			p.Topic, p.PartitionKey, strconv.FormatInt(p.Event.ID, 10), p.Event.EventID.String(), p.EventType, p.Code, p.Reason, p.At.UTC(),
		})
	}
	return objects
}

func (a *app) printParked(parked []relay.ParkedKey) error {
	if len(parked) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no key is parked")
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOPIC\tKEY\tID\tEVENT TYPE\tSINCE\tREASON")
	for _, p := range parked {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", printable(abridged(p.Topic)), printable(abridged(p.PartitionKey)), p.Event.ID, printable(p.EventType), moment(p.At), p.Code+": "+printable(p.Reason))
	}
	return w.Flush()
}

// printCompeting says where else to look: a metric that counts held keys must not lead to an empty list without a word.
func (a *app) printCompeting(ctx context.Context, operator *postgres.Operator) error {
	names, err := operator.Competing(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s park no key: %s\n", printable(strings.Join(names, ", ")), heldElsewhere)
	return err
}

// heldElsewhere follows the competing relays.
const heldElsewhere = "a key whose event failed is left out for a while and tried again by itself; see their log (event failed) and metric outbox_held_keys"

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
