package migrate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// rights are privileges on objects, as GRANT has them: SELECT, UPDATE (published_at).
type rights struct {
	privileges string
	// schema tells that the objects are schemas; else they are tables.
	schema  bool
	objects []Table
}

// on are rights on tables of the schema outbox.
func on(privileges string, tables ...string) rights {
	r := rights{privileges: privileges}
	for _, t := range tables {
		r.objects = append(r.objects, Table{stateSchema, t})
	}
	return r
}

// relayRights are what a relay needs, but for the sequence of the ids, whose name is not fixed.
func (s settings) relayRights() []rights {
	list := []rights{
		{privileges: "USAGE", schema: true, objects: []Table{{Schema: s.table.Schema}}},
		{privileges: "SELECT, UPDATE (published_at)", objects: []Table{s.table}},
	}
	if s.Delete {
		list = append(list, rights{privileges: "DELETE", objects: []Table{s.table}})
	}
	if s.Restore {
		list = append(list, rights{privileges: "INSERT", objects: []Table{s.table}})
	}
	list = append(list,
		rights{privileges: "USAGE", schema: true, objects: []Table{{Schema: stateSchema}}},
		on("SELECT", "migration"),
		on("SELECT, UPDATE (first_published_at, last_published_at)", "source"),
		on("SELECT, UPDATE", "lane"),
		on("SELECT, INSERT, UPDATE, DELETE", "relay", "parked_key", "held_topic", "failure", "dead_event"),
		on("SELECT, UPDATE (done_at, outcome, error)", "request"),
		on("SELECT", "pause", "job"),
		on("SELECT, INSERT, UPDATE", "retention"),
	)
	if s.Delete {
		list = append(list, on("SELECT, DELETE", "audit", "job", "request"))
	}
	return list
}

// grantTo is the statement.
func (r rights) grantTo(role string) string {
	names := make([]string, len(r.objects))
	for i, o := range r.objects {
		names[i] = r.name(o)
	}
	return fmt.Sprintf("GRANT %s ON %s TO %s;", r.privileges, strings.Join(names, ", "), role)
}

// name is an object as GRANT names it. The names of the schema outbox need no quotes.
func (r rights) name(o Table) string {
	switch {
	case r.schema && o.Schema == stateSchema:
		return "SCHEMA " + stateSchema
	case r.schema:
		return "SCHEMA " + quote(o.Schema)
	case o.Schema == stateSchema:
		return o.Schema + "." + o.Name
	}
	return o.SQL()
}

// privilege finds the privileges of a list, each with its columns.
var privilege = regexp.MustCompile(`([A-Z]+)(?: \(([^)]*)\))?`)

// wanted are single privileges, in the columns of a statement.
type wanted struct{ schemas, tables, privileges, columns, shown []string }

func (w *wanted) add(r rights) {
	for _, o := range r.objects {
		for _, p := range privilege.FindAllStringSubmatch(r.privileges, -1) {
			for _, column := range strings.Split(p[2], ", ") {
				w.schemas, w.tables = append(w.schemas, o.Schema), append(w.tables, o.Name)
				w.privileges, w.columns = append(w.privileges, p[1]), append(w.columns, column)
				what := p[1]
				if column != "" {
					what += " (" + column + ")"
				}
				w.shown = append(w.shown, what+" on "+r.name(o))
			}
		}
	}
}

// LacksRights returns the role of the connection, and what it lacks of the rights that [Grants] gives, such as SELECT on outbox.lane; nothing when a relay can
// work with it. It needs no rights itself. Objects that are not there are left out: [Up] makes them.
func LacksRights(ctx context.Context, q Querier, config Config) (role string, lacking []string, err error) {
	s, err := config.check()
	if err != nil {
		return "", nil, fmt.Errorf("look at the role's rights: %w", err)
	}
	var w wanted
	for _, r := range s.relayRights() {
		w.add(r)
	}
	if role, lacking, err = w.lacking(ctx, q); err == nil {
		var sequences []string
		sequences, err = s.lackingSequences(ctx, q)
		lacking = append(lacking, sequences...)
	}
	if err != nil {
		return "", nil, fmt.Errorf("look at the role's rights on %s: %w", s.table, err)
	}
	return role, lacking, nil
}

// lacking asks the catalog, which everybody may read, by names: a cast to regclass fails in a schema that the role may not use.
func (w wanted) lacking(ctx context.Context, q Querier) (role string, lacking []string, err error) {
	if err := q.QueryRow(ctx, `SELECT current_user::text`, pgx.QueryExecModeExec).Scan(&role); err != nil {
		return "", nil, err
	}
	rows, err := q.Query(ctx, `
SELECT r.n FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY r(schema, tab, privilege, col, n)
JOIN pg_namespace s ON s.nspname = r.schema
LEFT JOIN pg_class c ON c.relnamespace = s.oid AND c.relname = r.tab
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = r.col AND NOT a.attisdropped
WHERE CASE
    WHEN r.tab = '' THEN NOT has_schema_privilege(s.oid, r.privilege)
    WHEN c.oid IS NULL OR r.col <> '' AND a.attnum IS NULL THEN false
    WHEN has_table_privilege(c.oid, r.privilege) THEN false
    WHEN r.col = '' THEN true
    ELSE NOT has_column_privilege(c.oid, a.attnum, r.privilege) END
ORDER BY r.n`, pgx.QueryExecModeExec, w.schemas, w.tables, w.privileges, w.columns)
	if err != nil {
		return "", nil, err
	}
	var n int
	_, err = pgx.ForEachRow(rows, []any{&n}, func() error {
		lacking = append(lacking, w.shown[n-1])
		return nil
	})
	return role, lacking, err
}

func (s settings) lackingSequences(ctx context.Context, q Querier) ([]string, error) {
	f, err := readFacts(ctx, q, s.table)
	if errors.Is(err, errNoRelation) {
		return nil, nil
	}
	if err != nil || f.sequence == nil {
		return nil, err
	}
	var may bool
	err = q.QueryRow(ctx, `SELECT has_sequence_privilege(c.oid, 'SELECT') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2`,
		pgx.QueryExecModeExec, f.sequence.schema, f.sequence.name).Scan(&may)
	if err != nil || may {
		return nil, err
	}
	return []string{"SELECT on SEQUENCE " + f.sequence.SQL()}, nil
}
