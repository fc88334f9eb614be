package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Severity says what a difference means for the relay.
type Severity int

// The severities.
const (
	// Warning: the relay works, with a drawback that the text names.
	Warning Severity = iota + 1
	// Error: the relay cannot work, or events would be lost.
	Error
)

func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// Difference is one thing in which a table is not as the contract wants it.
type Difference struct {
	Severity Severity
	// Code is a stable name, such as column-missing.
	Code string
	// Column is where it is; "" when it concerns the whole table.
	Column string
	// Text says what is different and what follows from it.
	Text string
	// Mend is the SQL that removes the difference; "" when there is none that fits every table.
	Mend string
	// Careful tells that Mend must not be run without a look: it refuses writers, hides or shows rows, or locks the table for as long as it takes to go
	// through it. Its first lines say which. What is not Careful changes no row, and waits for a lock for 3 s at most.
	Careful bool
}

func (d Difference) String() string {
	text := d.Severity.String() + ": " + d.Text
	if d.Mend != "" {
		text += "\n  mend: " + strings.ReplaceAll(d.Mend, "\n", "\n  ")
	}
	return text
}

// TableError refuses a table that the relay cannot work with.
type TableError struct {
	Table Table
	// Differences are all of them, warnings too.
	Differences []Difference
}

func (e *TableError) Error() string {
	if len(e.Differences) == 1 && (e.Differences[0].Code == notATable || e.Differences[0].Code == notAnOutbox) {
		return e.Differences[0].Text
	}
	lines := []string{fmt.Sprintf("table %s does not fit:", e.Table)}
	for _, d := range e.Differences {
		lines = append(lines, d.String())
	}
	return strings.Join(lines, "\n")
}

// refusal is a TableError when there is an error among the differences.
func refusal(t Table, ds []Difference) error {
	if slices.ContainsFunc(ds, func(d Difference) bool { return d.Severity == Error }) {
		return &TableError{t, ds}
	}
	return nil
}

// count is a number with its noun: "1 lane", "2 lanes".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// exists tells whether there is anything of that name in that schema.
func exists(ctx context.Context, q Querier, t Table) (there bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2)`, pgx.QueryExecModeExec, t.Schema, t.Name).Scan(&there)
	return there, err
}
