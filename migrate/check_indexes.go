package migrate

import (
	"fmt"
	"slices"
	"strings"
)

// unpublished is the predicate of the partial index as the catalog prints it.
const unpublished = "(published_at IS NULL)"

// checkIndexes looks for the three indexes that the contract needs, by what they do and not by their names. A column that is missing
// brings its own unique index with it when it is added.
func (f *facts) checkIndexes() (ds []Difference) {
	if _, ok := f.columns["event_id"]; ok {
		ds = append(ds, f.checkEventIDIndex()...)
	}
	if _, ok := f.columns["id"]; ok {
		ds = append(ds, f.checkIDIndex()...)
	}
	return append(ds, f.checkPartialIndex()...)
}

func (f *facts) checkEventIDIndex() []Difference {
	// A unique index of a partitioned table has to contain the partition key, so no more than that can be asked of it.
	unique := func(i indexFacts) bool {
		return i.valid && i.unique && i.predicate == "" && slices.Contains(i.columns, "event_id") &&
			subset(i.columns, append([]string{"event_id"}, f.partitionBy...))
	}
	if slices.ContainsFunc(f.indexes, unique) {
		return nil
	}
	d := Difference{Severity: Error, Code: "event-id-not-unique", Column: "event_id",
		Text: "column event_id is not unique: two events could not be told apart"}
	if f.kind == "p" {
		d.Severity = Warning
	}
	if !slices.Contains(f.partitionBy, "") {
		names := []string{"event_id"}
		for _, name := range f.partitionBy {
			if name != "event_id" {
				names = append(names, quote(name))
			}
		}
		d = f.withUnique(d, "event_id", names)
	}
	return []Difference{d}
}

// withUnique adds addUnique, with what it costs.
func (f *facts) withUnique(d Difference, column string, columns []string) Difference {
	mend := f.addUnique(column, columns)
	if f.kind == "p" {
		return d.carefully(mend, f.reads("nobody reads or writes it"))
	}
	d.Mend = mend
	if strings.HasPrefix(mend, "DROP ") {
		d.Mend = ""
		return d.carefully(mend, beingMade)
	}
	return d
}

// beingMade warns of dropping an index that is not valid.
const beingMade = "Not while somebody is making the index at this moment, which looks the same: pg_stat_progress_create_index and pg_stat_activity say whether."

// addUnique makes the columns unique together; the constraint is named after the first. Reading and writing go on while the index is built, where PostgreSQL
// can do that: not for a partitioned table. To take the index over, the constraint locks the table for a moment only.
func (f *facts) addUnique(column string, columns []string) string {
	list := strings.Join(columns, ", ")
	if f.kind == "p" {
		return gently(f.alter("ADD UNIQUE (%s)", list))
	}
	var before string
	for _, i := range f.indexes {
		if !i.valid && i.unique && i.predicate == "" && slices.Equal(i.columns, columns) {
			// Its making was broken off, by a value that is there twice for example; it has the name, and refuses writers all the same.
			before += f.drop(i) + "\n"
		}
	}
	name := quote(f.uniqueName(column))
	return before + fmt.Sprintf("CREATE UNIQUE INDEX CONCURRENTLY %s ON %s (%s);\n", name, f.table.SQL(), list) +
		gently(f.alter("ADD CONSTRAINT %[1]s UNIQUE USING INDEX %[1]s", name))
}

// uniqueName is the name that PostgreSQL would give, or the next that no index of the table has.
func (f *facts) uniqueName(column string) string {
	name := shortened("", f.table.Name, "_"+column+"_key")
	for n := 1; slices.ContainsFunc(f.indexes, func(i indexFacts) bool { return i.valid && i.name == name }); n++ {
		name = shortened("", f.table.Name, fmt.Sprintf("_%s_key%d", column, n))
	}
	return name
}

func (f *facts) checkIDIndex() []Difference {
	ordered := func(i indexFacts) bool {
		return i.valid && i.method == "btree" && i.predicate == "" && len(i.columns) > 0 && i.columns[0] == "id"
	}
	unique := func(i indexFacts) bool { return ordered(i) && i.unique && len(i.columns) == 1 }
	switch {
	case slices.ContainsFunc(f.indexes, unique), f.kind == "p" && slices.ContainsFunc(f.indexes, ordered):
		return nil
	case slices.ContainsFunc(f.indexes, ordered):
		return []Difference{f.withUnique(Difference{Severity: Warning, Code: "id-not-unique", Column: "id",
			Text: "column id is not unique: an id that is written twice delays the events behind it"}, "id", []string{"id"})}
	case f.kind == "p":
		return []Difference{notIndexed().carefully(gently(fmt.Sprintf("CREATE INDEX ON %s (id);", f.table.SQL())), f.reads("nobody writes it"))}
	}
	return []Difference{f.withUnique(notIndexed(), "id", []string{"id"})}
}

func notIndexed() Difference {
	return Difference{Severity: Error, Code: "id-not-indexed", Column: "id", Text: "no index begins with column id: every read would go through the whole table"}
}

func (f *facts) checkPartialIndex() []Difference {
	partial := func(i indexFacts) bool {
		return i.method == "btree" && i.predicate == unpublished && slices.Equal(i.columns, []string{"id"})
	}
	at := slices.IndexFunc(f.indexes, func(i indexFacts) bool { return partial(i) && i.valid })
	if at >= 0 {
		return nil
	}
	d := Difference{Severity: Warning, Code: "unpublished-index-missing",
		Text: "the index on (id) WHERE published_at IS NULL is missing: the look for old unpublished events goes through the whole table"}
	if at := slices.IndexFunc(f.indexes, partial); at >= 0 {
		broken := f.indexes[at]
		d.Code = "unpublished-index-invalid"
		d.Text = fmt.Sprintf("index %s.%s is invalid, for its making was broken off: it is kept up by every write and used by nobody", broken.schema, broken.name)
		if f.kind == "p" {
			return []Difference{d.carefully(gently(f.drop(broken), f.createPartial(f.concurrently())), beingMade, f.reads("nobody reads or writes it"))}
		}
		return []Difference{d.carefully(f.drop(broken)+"\n"+f.createPartial(f.concurrently()), beingMade)}
	}
	if f.kind == "p" {
		return []Difference{d.carefully(gently(f.createPartial(f.concurrently())), f.reads("nobody writes it"))}
	}
	d.Mend = f.createPartial(f.concurrently())
	return []Difference{d}
}

// createPartial makes the index of what is unpublished. With [facts.concurrently] it lets the traffic go on.
func (f *facts) createPartial(how string) string {
	return fmt.Sprintf("CREATE INDEX%s %s ON %s (id) WHERE published_at IS NULL;", how, quote(f.partialName()), f.table.SQL())
}

// partialName is the usual name, or the next that is free: a table that was renamed keeps it. That of an index that is to be dropped first is free.
func (f *facts) partialName() string {
	name := f.table.IndexName()
	dropped := func(i indexFacts) bool { return i.name == name && !i.valid }
	for n := 1; slices.Contains(f.taken, name) && !slices.ContainsFunc(f.indexes, dropped); n++ {
		name = shortened("ix_", f.table.Name, fmt.Sprintf("_unpublished%d", n))
	}
	return name
}

func (f *facts) drop(i indexFacts) string {
	return "DROP INDEX" + f.concurrently() + " " + i.SQL() + ";"
}

// concurrently is where PostgreSQL can: not for a partitioned table.
func (f *facts) concurrently() string {
	if f.kind == "p" {
		return ""
	}
	return " CONCURRENTLY"
}

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}
