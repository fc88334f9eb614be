package cli

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

type dltShowFlags struct {
	dltFlags
	noValue, full bool
}

func (a *app) dltShow() *cobra.Command {
	f := &dltShowFlags{}
	cmd := &cobra.Command{
		Use:   "show TOPIC/PARTITION/OFFSET",
		Short: "Show one dead letter whole",
		Long: `show prints a letter as outbox dlt list names it: what its headers say of its failure, its
key, its headers and its value.`,
		Example: `  outbox dlt show shop.order-dlt/0/17
  outbox dlt show shop.order-dlt/0/17 --no-value
  outbox dlt show shop.order-dlt/0/17 --json`,
		Args:        arguments("TOPIC/PARTITION/OFFSET"),
		Annotations: map[string]string{collects: "environment"},
		RunE:        func(cmd *cobra.Command, args []string) error { return a.runDLTShow(cmd, f, args[0]) },
	}
	f.flags(cmd)
	fullFlag(cmd, &f.full)
	cmd.Flags().BoolVar(&f.noValue, "no-value", false, "leave value and headers out")
	return cmd
}

func (a *app) runDLTShow(cmd *cobra.Command, f *dltShowFlags, name string) error {
	if err := a.understood(cmd, nil); err != nil {
		return err
	}
	ref, err := operate.ParseLetterRef(name)
	if err != nil {
		return err
	}
	s, k, done, err := a.letters(cmd, &f.dltFlags)
	if err != nil {
		return err
	}
	defer done()
	l, err := s.Letter(cmd.Context(), me(), ref, f.force, k)
	if err != nil {
		return err
	}
	if f.noValue {
		l.Value, l.Headers, l.Withheld = nil, nil, true
	}
	if f.json {
		return a.encode(l)
	}
	return a.printLetter(l, f.full, f.noValue)
}

func (a *app) printLetter(l *operate.LetterRecord, full, noValue bool) error {
	text := whole
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(w, "%s\t%s\n", name, value) }
	line("letter", printable(l.LetterRef.String()))
	line("written", moment(l.At))
	line("key", letterKey(l.Key, text))
	line("event id", text.name(l.EventID))
	line("event type", text.name(l.Type))
	line("why", letterWords(l, text))
	if l.Redriven != nil {
		line("redriven", fmt.Sprintf("by %s at %s", cell(l.Redriven.By), moment(l.Redriven.At)))
	}
	for i, h := range l.Headers {
		value := "null"
		if h.Value != nil {
			value = text.name(string(h.Value))
		}
		line(label(i, "headers"), printable(h.Key)+": "+value)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	most := maxShown
	if full {
		most = math.MaxInt
	}
	switch {
	case noValue:
		return nil
	case l.Withheld:
		_, err := fmt.Fprintln(a.stdout, "\nvalue and headers are for operators: they were left out")
		return err
	case l.Value == nil:
		_, err := fmt.Fprintln(a.stdout, "\nvalue\nnull")
		return err
	}
	return printText(a.stdout, "value", l.Value, most)
}

// letterWords says what the headers say, in a sentence.
func letterWords(l *operate.LetterRecord, text shown) string {
	if l.Form == "" {
		return "no header says why it is here"
	}
	var b strings.Builder
	who := text.name(l.Consumer)
	switch {
	case l.Form == operate.LetterOfRelay:
		who = "the relay"
	case l.Consumer == "":
		who = "a consumer"
	}
	verb := "handle"
	if l.Form == operate.LetterOfRelay {
		verb = "publish"
	}
	fmt.Fprintf(&b, "%s could not %s it", who, verb)
	if l.Attempts > 0 {
		fmt.Fprintf(&b, " in %s", plural(l.Attempts, "attempt"))
	}
	if !l.FailedAt.IsZero() {
		fmt.Fprintf(&b, ", the last one at %s", moment(l.FailedAt))
	}
	if l.Error != "" {
		fmt.Fprintf(&b, ": %s", text.sentence(l.Error))
	}
	if o := l.Original; o != nil {
		fmt.Fprintf(&b, "; it was in %s", text.name(o.Topic))
		if o.Partition >= 0 {
			fmt.Fprintf(&b, ", partition %d", o.Partition)
		}
		if o.Offset >= 0 {
			fmt.Fprintf(&b, ", offset %d", o.Offset)
		}
		if !l.OriginalAt.IsZero() {
			fmt.Fprintf(&b, ", of %s", moment(l.OriginalAt))
		}
	}
	fmt.Fprintf(&b, " (headers of %s)", l.Form)
	return b.String()
}
