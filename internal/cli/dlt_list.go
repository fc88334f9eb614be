package cli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

type dltListFlags struct {
	dltFlags
	letterFilter
	limit, window int
	after         string
	full          bool
}

func (a *app) dltList() *cobra.Command {
	f := &dltListFlags{}
	cmd := &cobra.Command{
		Use:   "list TOPIC…",
		Short: "List dead letters, the newest first",
		Long: `list shows the newest letters of dead-letter topics. It reads the newest --window
records of each partition, says at the end which those were, and goes on before them
with --after. All flags narrow the list. Kafka has no index: a filter looks through
the same records, so that a page with few matches may be short and not the last one.

REDRIVEN tells who has sent a letter back already, and when.`,
		Example: `  outbox dlt list shop.order
  outbox dlt list shop.order-dlt shop.payment-dlt --error timeout --from today
  outbox dlt list shop.order --key 4711 --window 100000 --json`,
		Args:        someArguments("a topic"),
		Annotations: map[string]string{collects: "environment"},
		RunE:        func(cmd *cobra.Command, args []string) error { return a.runDLTList(cmd, f, args) },
	}
	f.dltFlags.flags(cmd)
	f.letterFilter.flags(cmd)
	cmd.Flags().IntVar(&f.limit, "limit", operate.DefaultPage, fmt.Sprintf("how many to list, 1 to %d", operate.MaxPage))
	cmd.Flags().IntVar(&f.window, "window", operate.DefaultLetterWindow, "how many records of each partition to look at, the newest")
	cmd.Flags().StringVar(&f.after, "after", "", "go on behind the page that gave this `cursor`")
	fullFlag(cmd, &f.full)
	return cmd
}

func (a *app) runDLTList(cmd *cobra.Command, f *dltListFlags, args []string) error {
	if err := a.understood(cmd, []check{between("limit", &f.limit, 1, operate.MaxPage), between("window", &f.window, 1, operate.MaxLetterWindow)}); err != nil {
		return err
	}
	q := operate.LetterQuery{Window: f.window, Limit: f.limit, After: f.after}
	var err error
	if q.LetterSelection, err = f.selection(args); err != nil {
		return err
	}
	if q.LetterFilter, err = f.filter(a, cmd); err != nil {
		return err
	}
	s, k, done, err := a.letters(cmd, &f.dltFlags)
	if err != nil {
		return err
	}
	defer done()
	p, err := s.Letters(cmd.Context(), me(), q, k)
	if err != nil {
		return err
	}
	if f.json {
		return a.encode(p)
	}
	return a.printLetters(p, shown{f.full})
}

func (a *app) printLetters(p operate.LetterPage, text shown) error {
	if len(p.Letters) == 0 {
		fmt.Fprintln(a.stdout, none("letter matches", p.Next))
	} else {
		consumer := consumerColumn(p.Letters, text)
		err := a.table("LETTER\tAGE\tKEY\tEVENT ID\tEVENT TYPE\t"+consumer.title+"ATTEMPTS\tFROM\tERROR\tREDRIVEN", func(w io.Writer) {
			for i := range p.Letters {
				l := &p.Letters[i]
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s%s\t%s\t%s\t%s\n", printable(l.LetterRef.String()), shortAge(a.now().Sub(l.At)), letterKey(l.Key, text), text.name(l.EventID), text.name(l.Type), consumer.cell(l),
					attemptsCell(l.Attempts), originCell(l.Original, text), text.sentence(l.Error), redrivenCell(l.Redriven))
			}
		})
		if err != nil {
			return err
		}
		if n := operate.EventsOf(p.Letters); n != int64(len(p.Letters)) {
			fmt.Fprintln(a.stdout, lettersOf(int64(len(p.Letters)), n))
		}
	}
	for _, line := range lookedAt(p.Looks) {
		fmt.Fprintln(a.stdout, line)
	}
	if p.Next == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.stdout, "there is more: --after %s\n", p.Next)
	return err
}

// column is one that a table may be without.
type column struct {
	title string
	cell  func(*operate.DeadLetter) string
}

// consumerColumn is for letters of which one names a consumer.
func consumerColumn(letters []operate.DeadLetter, text shown) column {
	if !slices.ContainsFunc(letters, func(l operate.DeadLetter) bool { return l.Consumer != "" }) {
		return column{cell: func(*operate.DeadLetter) string { return "" }}
	}
	return column{"CONSUMER\t", func(l *operate.DeadLetter) string { return text.name(l.Consumer) + "\t" }}
}

// lettersOf says how many letters there are, and of how many events where that is another number.
func lettersOf(letters, events int64) string {
	if letters == events {
		return plural(int(letters), "letter")
	}
	return plural(int(letters), "letter") + ", " + plural(int(events), "event")
}

// lookedAt has a line for each topic.
func lookedAt(looks []operate.LetterLook) (lines []string) {
	if len(looks) == 0 {
		return []string{"the dead-letter topic is empty, or has nothing of that time"}
	}
	for i := 0; i < len(looks); {
		topic, begin := looks[i].Topic, i
		var records, offsets int64
		window := int64(0)
		for ; i < len(looks) && looks[i].Topic == topic; i++ {
			records += looks[i].Records
			offsets += looks[i].Next - looks[i].First
			window = max(window, looks[i].To-looks[i].From)
		}
		if one := looks[begin]; i == begin+1 {
			lines = append(lines, fmt.Sprintf("looked at %s of %s: %s records of partition %d, offsets %d to %d; it has %d to %d", "the newest", printable(topic), grouped(records), one.Partition, one.From, one.To-1, one.First, one.Next-1))
			continue
		}
		lines = append(lines, fmt.Sprintf("looked at %s of about %s records of %s: at most %s of each of its %d partitions that have some", grouped(records), grouped(offsets), printable(topic), grouped(window), i-begin))
	}
	return lines
}

// shortAge is 40s, 3m, 5h or 12d.
func shortAge(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// letterKey is a record's key as a cell: null is not the empty one.
func letterKey(key operate.Bytes, text shown) string {
	if key == nil {
		return "null"
	}
	return text.key(string(key))
}

func attemptsCell(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func originCell(o *operate.LetterRef, text shown) string {
	switch {
	case o == nil:
		return "-"
	case o.Partition < 0:
		return text.name(o.Topic)
	case o.Offset < 0:
		return fmt.Sprintf("%s/%d", text.name(o.Topic), o.Partition)
	}
	return fmt.Sprintf("%s/%d/%d", text.name(o.Topic), o.Partition, o.Offset)
}

func redrivenCell(r *operate.Redriven) string {
	if r == nil {
		return "-"
	}
	return cell(r.By) + " " + moment(r.At)
}
