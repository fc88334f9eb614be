package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres"
)

// looks is a store for commands that change nothing.
type looks struct {
	operate.Lookups
	operate.Changes
	operate.InboxLookups
}

// looker makes the operators' service of the source for looking; done closes its connections.
func (a *app) looker(cmd *cobra.Command, db *database) (service *operate.Service, done func(), err error) {
	pool, err := db.pool(cmd.Context(), a, cmd)
	if err != nil {
		return nil, nil, settingsError(cmd, err)
	}
	store, err := postgres.NewStore(pool, postgres.Config{Table: db.table})
	if err == nil {
		service, err = operate.New(looks{Lookups: store, InboxLookups: store}, kafka.Renderer{}, operate.Config{})
	}
	if err != nil {
		closeSoon(pool)
		return nil, nil, &configError{err}
	}
	return service, func() { closeSoon(pool) }, nil
}

// me is who uses the command line. Whoever has the database's rights needs none of ours.
func me() operate.Actor { return operate.Actor{Name: operatorName(), Role: operate.Admin} }

// page are the flags of a list.
type page struct {
	database
	limit int
	after string
	json  bool
}

func (p *page) flags(cmd *cobra.Command) {
	p.database.flags(cmd)
	cmd.Flags().IntVar(&p.limit, "limit", operate.DefaultPage, fmt.Sprintf("how many to list, 1 to %d", operate.MaxPage))
	cmd.Flags().StringVar(&p.after, "after", "", "go on behind the page that gave this `cursor`")
	cmd.Flags().BoolVar(&p.json, "json", false, "print a JSON object")
}

func (p *page) checks() []check { return []check{between("limit", &p.limit, 1, operate.MaxPage)} }

// showLook asks the service for a page and shows it: as a JSON object, or by print.
func showLook[T any](a *app, cmd *cobra.Command, f *page, ask func(*operate.Service) (T, error), print func(T) error) error {
	service, done, err := a.looker(cmd, &f.database)
	if err != nil {
		return err
	}
	defer done()
	found, err := ask(service)
	if err != nil {
		return err
	}
	if f.json {
		return a.encode(found)
	}
	return print(found)
}

// table writes the lines of a table.
func (a *app) table(head string, lines func(w io.Writer)) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, head)
	lines(w)
	return w.Flush()
}

// foot says what a list has not looked at, and how to go on.
func (a *app) foot(looked []operate.Look, estimated, next string) error {
	for _, l := range looked {
		fmt.Fprintf(a.stdout, "looked at %s %s only, ids %d to %d\n", grouped(l.Events), l.What, l.From, l.To)
	}
	if estimated != "" {
		fmt.Fprintf(a.stdout, "estimated: %s\n", estimated)
	}
	if next == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.stdout, "there is more: --after %s\n", next)
	return err
}

// none says that nothing was found, and where, if not everywhere.
func none(what string, next string) string {
	if next != "" {
		return "no " + what + " so far"
	}
	return "no " + what
}

// grouped is 20,000 for 20000.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// cell is a text from the database as a cell of a table.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return printable(abridged(s))
}

// plainText is a text of several lines without what a terminal would obey.
func plainText(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, "\\x%02x", s[i])
		case r == '\n' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// noteLine is a sentence with texts from the database in it, without what a terminal would obey, in one line.
func noteLine(s string) string { return strings.ReplaceAll(plainText(s), "\n", `\n`) }
