package cli

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

func (a *app) keys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Look at parked keys, and let them go on",
		Long: `A key (topic and partition key) is parked when one of its events can never be
published as it is, such as one that is larger than its topic allows. The key's
later events wait behind it; all other keys go on. With --park-scope aggregate keys
that come to an event of the same aggregate are parked too, with the code
AGGREGATE_PARKED: they go on by themselves when that one key does, and unpark and
skip refuse them, and a filter leaves them out. A relay of mode competing parks
no key: it tries the event again by itself, and says so in its log; what was parked
before stays so.

Mend the cause (raise the topic's max.message.bytes, correct the row) and unpark
the key: its events are published in order. Or skip the event: it is moved whole
to outbox.dead_event, and the key goes on without it. Both take one key, or filters.`,
		Example: `  outbox keys list
  outbox keys unpark --topic order-service.order.confirmed --key order-17
  outbox keys unpark --topic order-service.order.confirmed
  outbox keys skip --topic order-service.order.confirmed --key order-17 --reason "too large, sent by hand"`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.keysList(), a.keysUnpark(), a.keysSkip())
	return cmd
}

// abridged keeps a line readable whatever a row holds; --json shows all of it.
func abridged(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	short := fmt.Sprintf("%s… (%d bytes)", s[:cut], len(s))
	if len(short) >= len(s) {
		return s // what is left out is shorter than what says so
	}
	return short
}

// printable shows a text from the database without what a terminal would obey.
func printable(s string) string {
	quoted := strconv.Quote(s)
	if quoted == `"`+s+`"` && s != "" {
		return s
	}
	return quoted
}
