package migrate

import (
	"fmt"
	"strings"
)

// rule is what the contract says of a column.
type rule struct {
	name string
	typ  string
	// also are other types that work, each with its drawback.
	also map[string]string
	// added is the definition for a table that lacks the column.
	added string
}

// rules are the contract's columns, in its order.
func rules() []rule {
	text := map[string]string{
		"character varying": "longer values fail the business transaction",
		"character":         "values are padded with blanks, and longer ones fail the business transaction",
		"citext":            "keys that differ in case only count as different all the same",
	}
	moment := map[string]string{"timestamp without time zone": "times are wrong by the writer's offset from UTC"}
	return []rule{
		{"id", "bigint", map[string]string{"integer": "ids end at 2147483647"}, "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"},
		{"event_id", "uuid", nil, "uuid NOT NULL UNIQUE"},
		{"aggregate_type", "text", text, "text NOT NULL"},
		{"aggregate_id", "text", text, "text NOT NULL"},
		{"event_type", "text", text, "text NOT NULL"},
		{"payload", "jsonb", map[string]string{"json": "the payload is published with the writer's white space and repeated names"}, "jsonb NOT NULL"},
		{"topic", "text", text, "text NOT NULL"},
		{"partition_key", "text", text, "text NOT NULL"},
		{"created_at", "timestamp with time zone", moment, "timestamptz NOT NULL DEFAULT now()"},
		{"published_at", "timestamp with time zone", moment, "timestamptz"},
	}
}

// checkColumns holds the contract's columns against the table's.
func (f *facts) checkColumns() (ds []Difference) {
	var unbounded []string
	for _, r := range rules() {
		c, ok := f.columns[r.name]
		if !ok {
			ds = append(ds, f.missingColumn(r))
			continue
		}
		if r.typ == "text" && c.shown == "character varying" {
			unbounded = append(unbounded, r.name)
		} else {
			ds = append(ds, f.checkType(r, c)...)
		}
		ds = append(ds, f.checkNull(r, c)...)
	}
	if len(unbounded) > 0 {
		ds = append(ds, f.varying(unbounded))
	}
	return append(ds, f.checkDefaults()...)
}

// varying is one difference for all columns that hold what text holds under another name.
func (f *facts) varying(names []string) Difference {
	var alters []string
	for _, name := range names {
		alters = append(alters, fmt.Sprintf("ALTER COLUMN %s TYPE text", name))
	}
	d := Difference{Severity: Warning, Code: "column-type", Mend: gently(f.alter("%s", strings.Join(alters, ", "))),
		Text: fmt.Sprintf("character varying without a length, not text: %s; it holds the same, and works as well", strings.Join(names, ", "))}
	if len(names) == 1 {
		d.Column = names[0]
	}
	return d
}

func (f *facts) missingColumn(r rule) Difference {
	d := Difference{Severity: Error, Code: "column-missing", Column: r.name,
		Text: fmt.Sprintf("column %s is missing; where the table has rows, add a DEFAULT for them", r.name)}
	warning := "Fails where the table has rows, and then wants values for them; writers that do not know the column fail from then on."
	switch r.name {
	case "published_at":
		warning = "Every row that is there counts as unpublished then, and is published: where it has been before, UPDATE it in the same transaction."
	case "id":
		warning = "Numbers the rows that are there in the order in which they lie, which need not be that of their writing. " + f.rewrites()
	case "created_at":
		warning = "Gives the rows that are there the time of this statement."
	}
	return d.carefully(gently(f.alter("ADD COLUMN %s %s", r.name, r.added)), warning)
}

func (f *facts) checkType(r rule, c columnFacts) []Difference {
	base := c.base
	if strings.HasSuffix(base, ".citext") {
		base = "citext" // an extension may live in any schema
	}
	drawback, works := r.also[base]
	switch {
	case base == r.typ:
		return nil
	case works:
		return []Difference{f.retype(Difference{Severity: Warning, Code: "column-type", Column: r.name,
			Text: fmt.Sprintf("column %s is %s, not %s: %s", r.name, c.shown, r.typ, drawback)}, r, base)}
	}
	return []Difference{f.retype(Difference{Severity: Error, Code: "column-type", Column: r.name,
		Text: fmt.Sprintf("column %s is %s, not %s", r.name, c.shown, r.typ)}, r, base)}
}

// retype adds what gives the column its type. PostgreSQL takes over the rows as they are for one pair of types alone.
func (f *facts) retype(d Difference, r rule, from string) Difference {
	mend := gently(f.alter("ALTER COLUMN %[1]s TYPE %[2]s USING %[1]s::%[2]s", r.name, r.typ))
	switch {
	case from == "timestamp without time zone":
		mend = gently(f.alter("ALTER COLUMN %[1]s TYPE %[2]s USING %[1]s AT TIME ZONE 'UTC'", r.name, r.typ))
		return d.carefully(mend, f.rewrites(), "It takes the times for UTC: where writers have written those of another zone, name that.")
	case from == "character varying" && r.typ == "text":
		d.Mend = mend
		return d
	}
	return d.carefully(mend, f.rewrites())
}

func (f *facts) checkNull(r rule, c columnFacts) []Difference {
	if r.name == "published_at" {
		if !c.notNull {
			return nil
		}
		return []Difference{{Severity: Error, Code: "published-at-required", Column: r.name,
			Text: "column published_at is NOT NULL: no event can be unpublished", Mend: gently(f.alter("ALTER COLUMN published_at DROP NOT NULL"))}}
	}
	if c.notNull {
		return nil
	}
	return []Difference{Difference{Severity: Warning, Code: "column-nullable", Column: r.name,
		Text: fmt.Sprintf("column %s may be NULL: an event without it cannot be published and stops its key", r.name)}.
		carefully(gently(f.alter("ALTER COLUMN %s SET NOT NULL", r.name)),
			"The business transaction of a writer that leaves it out fails from then on. "+f.reads("nobody reads or writes it"))}
}

// checkDefaults looks at the two columns whose default matters.
func (f *facts) checkDefaults() (ds []Difference) {
	if c, ok := f.columns["published_at"]; ok && c.def != "" {
		d := Difference{Severity: Error, Code: "published-at-default", Column: "published_at",
			Text: fmt.Sprintf("column published_at has the default %s: events count as published when they are written", c.def)}
		if c.generated == "" {
			// Without the default a column that is NOT NULL would refuse every writer.
			d.Mend = gently(f.alter("ALTER COLUMN published_at DROP NOT NULL, ALTER COLUMN published_at DROP DEFAULT"))
		}
		ds = append(ds, d)
	}
	if c, ok := f.columns["created_at"]; ok && c.def == "" {
		ds = append(ds, Difference{Severity: Warning, Code: "created-at-default", Column: "created_at",
			Text: "column created_at has no default: writers that leave it out fail, or write no time",
			Mend: gently(f.alter("ALTER COLUMN created_at SET DEFAULT now()"))})
	}
	return ds
}

// checkOthers looks at columns that the contract does not require.
func (f *facts) checkOthers() (ds []Difference) {
	contract := map[string]bool{"headers": true}
	for _, r := range rules() {
		contract[r.name] = true
	}
	for _, name := range f.order {
		c := f.columns[name]
		if !contract[name] && c.notNull && c.def == "" && c.identity == "" {
			ds = append(ds, Difference{Severity: Warning, Code: "column-required", Column: name,
				Text: fmt.Sprintf("column %s is not part of the contract, and is NOT NULL without a default: writers that do not know it fail", name)}.
				carefully(gently(f.alter("ALTER COLUMN %s DROP NOT NULL", quote(name))), "Whoever reads the column may rely on a value in it."))
		}
	}
	if c, ok := f.columns["headers"]; ok && c.base != "jsonb" && c.base != "json" {
		ds = append(ds, f.retype(Difference{Severity: Warning, Code: "headers-type", Column: "headers",
			Text: fmt.Sprintf("column headers is %s, not jsonb: the relay does not use it", c.shown)}, rule{name: "headers", typ: "jsonb"}, c.base))
	}
	return ds
}

// lacking are the contract's columns that the table does not have.
func (f *facts) lacking() (names []string) {
	for _, r := range rules() {
		if _, ok := f.columns[r.name]; !ok {
			names = append(names, r.name)
		}
	}
	return names
}

// checkHeaders is asked only when the column is wanted.
func (f *facts) checkHeaders() []Difference {
	if _, ok := f.columns["headers"]; ok {
		return nil
	}
	if _, ok := f.other(); ok {
		return nil
	}
	return []Difference{{Severity: Warning, Code: "headers-missing", Column: "headers",
		Text: "the optional column headers is missing", Mend: gently(f.alter("ADD COLUMN headers jsonb"))}}
}
