package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Check compares a table with the contract and returns every difference, errors first; nil when there is none. It only reads, and a
// role without rights on the table may call it. A table that is not there is one difference.
func Check(ctx context.Context, q Querier, t Table) ([]Difference, error) {
	f, err := readFacts(ctx, q, t)
	if errors.Is(err, errNoRelation) {
		return []Difference{missingTable(t)}, nil
	}
	if err != nil {
		return nil, err
	}
	return f.differences(), nil
}

func missingTable(t Table) Difference {
	s := settings{table: t}
	return Difference{Severity: Error, Code: tableMissing, Text: fmt.Sprintf("there is no table %s", t), Mend: s.createTable() + s.createIndex()}
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
