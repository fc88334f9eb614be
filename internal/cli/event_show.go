package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

func (a *app) eventsShow() *cobra.Command {
	var db database
	var asJSON, noPayload, full bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one event whole, and why it does not move",
		Long: `show finds an event by the id of its row or by its event id, published or not, or
among the dead ones, and shows its columns, payload and headers, its failures, the
record that Kafka gets, and what keeps it: a parked key with the event that stops it,
a topic that is missing or forbidden, a pause, a relay that is not there.

Where there is no such event, its transaction may still be open: then those are named.`,
		Example: `  outbox events show 4711
  outbox events show 4711 --no-payload
  outbox events show 0190f6c2-7d1e-7a55-8f0e-2f3c9a3d5b11 --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("events show needs the id of one row or event")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := operate.ParseRef(args[0])
			if err != nil {
				return err
			}
			service, done, err := a.looker(cmd, &db)
			if err != nil {
				return err
			}
			defer done()
			d, err := service.Event(cmd.Context(), me(), ref)
			if err != nil {
				return err
			}
			if noPayload {
				d.Payload, d.Headers, d.Record = nil, nil, withoutValue(d.Record)
			}
			if asJSON {
				return a.encode(d)
			}
			return a.printEvent(d, full)
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object; payload and headers are strings in it, exact to the digit")
	fullFlag(cmd, &full)
	cmd.Flags().BoolVar(&noPayload, "no-payload", false, "leave payload and headers out")
	return cmd
}

// withoutValue leaves the size of a record, and neither its value nor its headers.
func withoutValue(r *operate.Record) *operate.Record {
	if r == nil {
		return nil
	}
	bare := *r
	bare.Value, bare.Headers = nil, nil
	return &bare
}

func (a *app) printEvent(d operate.EventDetail, full bool) error {
	show := shown{full}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(w, "%s\t%s\n", name, value) }
	line("id", fmt.Sprint(d.ID))
	line("event id", d.EventID.String())
	line("state", string(d.State))
	line("topic", printable(d.Topic))
	line("key", printable(d.PartitionKey))
	line("event type", printable(d.Type))
	line("aggregate", printable(d.AggregateType)+" "+printable(d.AggregateID))
	line("created", moment(d.CreatedAt))
	line("published", moment(d.PublishedAt))
	printLane(line, d)
	printFailures(line, d)
	for _, c := range d.Extra {
		value := "NULL"
		if c.Value != nil {
			value = show.name(*c.Value)
		}
		line(printable(c.Name), value)
	}
	for i, r := range d.Why {
		line(label(i, "why"), noteLine(r.Text))
	}
	for i, n := range d.Notes {
		line(label(i, "note"), noteLine(n))
	}
	printRecord(line, d, show)
	if err := w.Flush(); err != nil {
		return err
	}
	most := maxShown
	if full {
		most = math.MaxInt
	}
	return a.printTexts(d, most)
}

// printFailures leaves out an error that a reason tells, too.
func printFailures(line func(string, string), d operate.EventDetail) {
	f := d.Failures
	if f == nil {
		return
	}
	attempts := fmt.Sprintf("%d, the first at %s, the last at %s", f.Attempts, moment(f.FirstAt), moment(f.LastAt))
	if f.FirstAt.Equal(f.LastAt) {
		attempts = fmt.Sprintf("%d, at %s", f.Attempts, moment(f.LastAt))
	}
	line("attempts", attempts)
	if f.FirstError != f.LastError {
		line("first error", noteLine(f.FirstError))
	}
	_, reason, _ := strings.Cut(f.LastError, ": ")
	told := slices.ContainsFunc(d.Why, func(r operate.Reason) bool {
		return strings.Contains(r.Text, f.LastError) || reason != "" && strings.Contains(r.Text, reason)
	})
	if !told {
		line("last error", noteLine(f.LastError))
	}
}

// label names the first line of several.
func label(i int, name string) string {
	if i > 0 {
		return ""
	}
	return name
}

func printLane(line func(string, string), d operate.EventDetail) {
	owner := "nobody has it"
	if d.LaneOwner != "" {
		owner = fmt.Sprintf("%s has it until %s", printable(d.LaneOwner), moment(d.LeaseEnds))
	}
	line("lane", fmt.Sprintf("%d: %s", d.Lane, owner))
}

func printRecord(line func(string, string), d operate.EventDetail, show shown) {
	switch {
	case d.Unrenderable != "":
		line("record", "none: "+printable(d.Unrenderable))
	case d.Record != nil:
		line("record", fmt.Sprintf("%d bytes, as the topic's max.message.bytes counts them", d.Record.Bytes))
		for i, h := range d.Record.Headers {
			line(label(i, "headers"), printable(h.Key)+": "+show.name(h.Value))
		}
	}
}

// maxShown is how much of a payload is printed for people, in bytes.
const maxShown = 10_000

func (a *app) printTexts(d operate.EventDetail, most int) error {
	if d.Withheld {
		_, err := fmt.Fprintln(a.stdout, "\npayload and headers are for operators: they were left out")
		return err
	}
	return firstOf(printText(a.stdout, "payload", d.Payload, most), printText(a.stdout, "column headers", d.Headers, most))
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// printText shows a text, indented where it is JSON: the digits of a number stay as they are.
func printText(w io.Writer, name string, text []byte, most int) error {
	if text == nil {
		return nil
	}
	var indented bytes.Buffer
	if json.Indent(&indented, text, "", "  ") == nil {
		text = indented.Bytes()
	}
	more := ""
	if len(text) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		more = fmt.Sprintf("\n… %d bytes in all: --full or --json shows them", len(text))
		text = text[:cut]
	}
	_, err := fmt.Fprintf(w, "\n%s\n%s%s\n", name, strings.TrimRight(plainText(string(text)), "\n"), more)
	return err
}
