package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Check compares a table with the contract and returns every difference, errors first; nil when there is none. It only reads, and a
// role without rights on the table may call it. A table that is not there is one difference.
func Check(ctx context.Context, q Querier, t Table) ([]Difference, error) {
	f, err := readFacts(ctx, q, t)
	if errors.Is(err, errNoRelation) {
		return missingTable(ctx, q, t)
	}
	if err != nil {
		return nil, err
	}
	return f.differences(), nil
}

// missingTable looks for the table under another name first: a new one would hide the events that are in it. Its index keeps its name.
func missingTable(ctx context.Context, q Querier, t Table) ([]Difference, error) {
	renamed, err := renamedTo(ctx, q, t)
	if err != nil {
		return nil, err
	}
	d := Difference{Severity: Error, Code: tableMissing, Text: fmt.Sprintf("there is no table %s", t)}
	if renamed == (Table{}) {
		s := settings{table: t}
		d.Mend = s.createTable() + s.createIndex()
	} else {
		d.Text += fmt.Sprintf(": it was renamed to %s, which has its index %s, and its events", renamed, quoteUnlessPlain(t.IndexName()))
		d = d.carefully(gently(renameBack(renamed, t)),
			"Writers that know the new name fail from then on. Where the new name is meant, nothing needs to be mended here: give the relay that name.")
	}
	return []Difference{d}, nil
}

// renamedTo returns what a table that is not there is called now; the zero Table when nothing tells. One that is renamed keeps its index.
func renamedTo(ctx context.Context, q Querier, t Table) (now Table, err error) {
	err = q.QueryRow(ctx, `SELECT n.nspname, c.relname FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_class c ON c.oid = i.indrelid
			JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'published_at'
		WHERE n.nspname = $1 AND x.relname = $2 AND c.relname <> $3 AND c.relkind IN ('r', 'p')`, pgx.QueryExecModeExec, t.Schema, t.IndexName(), t.Name).Scan(&now.Schema, &now.Name)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Table{}, fmt.Errorf("look for table %s under another name: %w", t, err)
	}
	return now, nil
}

// renameBack is the statement that gives a table its old name again.
func renameBack(now, old Table) string {
	return fmt.Sprintf("ALTER TABLE %s RENAME TO %s;", now.SQL(), quote(old.Name))
}

func (f *facts) differences() []Difference {
	if d, ok := f.other(); ok {
		return []Difference{d}
	}
	ds := slices.Concat(f.checkStorage(), f.checkColumns(), f.checkOthers(), f.checkID(), f.checkIndexes())
	slices.SortStableFunc(ds, func(a, b Difference) int { return int(b.Severity - a.Severity) })
	return ds
}

// The codes where there is no outbox table at all. Each is the only difference then.
const (
	tableMissing = "table-missing"
	notATable    = "not-a-table"
	notAnOutbox  = "not-an-outbox-table"
)

// mostColumns is more than half of the contract's: a table that lacks so many was made for something else.
const mostColumns = 6

// other tells that the name belongs to something else, which nobody would want to be altered into an outbox table.
func (f *facts) other() (Difference, bool) {
	if f.kind != "r" && f.kind != "p" {
		return Difference{Severity: Error, Code: notATable, Text: fmt.Sprintf("%s is no table but %s", f.table, kindName(f.kind))}, true
	}
	if lacking := f.lacking(); len(lacking) >= mostColumns {
		return Difference{Severity: Error, Code: notAnOutbox, Text: fmt.Sprintf("table %s is not an outbox table: it lacks %s; "+
			"name the right one, or a new name for outbox migrate up to make it", f.table, strings.Join(lacking, ", "))}, true
	}
	return Difference{}, false
}

func kindName(kind string) string {
	names := map[string]string{"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index",
		"I": "an index", "c": "a composite type"}
	if name, ok := names[kind]; ok {
		return name
	}
	return fmt.Sprintf("a relation of kind %q", kind)
}

// alter begins a statement that changes the table.
func (f *facts) alter(format string, args ...any) string {
	return "ALTER TABLE " + f.table.SQL() + " " + fmt.Sprintf(format, args...) + ";"
}

// checkStorage looks at what the table is, apart from its columns.
func (f *facts) checkStorage() (ds []Difference) {
	switch f.persistence {
	case "u":
		ds = append(ds, Difference{Severity: Error, Code: "not-durable",
			Text: "the table is UNLOGGED: a crash of the server empties it, and the events are lost"}.
			carefully(gently(f.alter("SET LOGGED")), f.rewrites()))
	case "t":
		ds = append(ds, Difference{Severity: Error, Code: "not-durable", Text: "the table is temporary: no other session sees its events"})
	}
	if f.isPartition {
		ds = append(ds, Difference{Severity: Error, Code: "is-partition",
			Text: "the table is a partition: name the table that it is a part of, or the events of its other partitions are not published"})
	}
	if f.rowSecurity {
		ds = append(ds, Difference{Severity: Warning, Code: "row-security",
			Text: "row-level security is on: events that its policies hide from the relay's role are not published"}.
			carefully(gently(f.alter("DISABLE ROW LEVEL SECURITY")),
				"Whoever may read the table reads all of its rows then. A superuser can exempt the relay's role alone instead: ALTER ROLE … BYPASSRLS."))
	}
	return ds
}
