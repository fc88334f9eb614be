package migrate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func mustUp(t *testing.T, c migrate.Conn, config migrate.Config) migrate.Result {
	t.Helper()
	r, err := migrate.Up(t.Context(), c, config)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustParse(t *testing.T, text string) migrate.Table {
	t.Helper()
	table, err := migrate.ParseTable(text)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func mustCheck(t *testing.T, q migrate.Querier, text string) []migrate.Difference {
	t.Helper()
	ds, err := migrate.Check(t.Context(), q, mustParse(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func mustExec(t *testing.T, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func scan[T any](t *testing.T, c *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// codes are those of the differences, each with its severity's first letter.
func codes(ds []migrate.Difference) []string {
	var out []string
	for _, d := range ds {
		out = append(out, d.Severity.String()[:1]+":"+d.Code)
	}
	slices.Sort(out)
	return out
}

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// catalog describes all that the database holds, a line each, but for the times of migrations and random ids.
func catalog(t *testing.T, c *pgx.Conn) []string {
	t.Helper()
	rows, err := c.Query(t.Context(), `
		WITH mine AS (SELECT c.oid, n.nspname, c.relname, c.relkind, c.reloptions FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema')
		SELECT concat_ws(' ', 'relation', nspname, relname, relkind::text, reloptions::text, obj_description(oid)) FROM mine
		UNION ALL SELECT concat_ws(' ', 'column', m.nspname, m.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
				a.attidentity::text, pg_get_expr(d.adbin, d.adrelid), col_description(m.oid, a.attnum))
			FROM mine m JOIN pg_attribute a ON a.attrelid = m.oid AND a.attnum > 0 LEFT JOIN pg_attrdef d ON d.adrelid = m.oid AND d.adnum = a.attnum
		UNION ALL SELECT concat_ws(' ', 'index', pg_get_indexdef(i.indexrelid)) FROM mine m JOIN pg_index i ON i.indexrelid = m.oid
		UNION ALL SELECT concat_ws(' ', 'constraint', m.nspname, m.relname, o.conname, pg_get_constraintdef(o.oid)) FROM mine m
			JOIN pg_constraint o ON o.conrelid = m.oid
		UNION ALL SELECT concat_ws(' ', 'schema', nspname) FROM pg_namespace WHERE nspname !~ '^pg_'`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

func diffLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	t.Errorf("%s:\ngot\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
}
