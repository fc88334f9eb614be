package pg

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/advice"
)

// UnknownTableError tells that a table cannot be relayed, because the database does not have it, or has not registered it as a source. It is
// relay.ErrConfiguration.
type UnknownTableError struct {
	// Table is the table that was asked for, and Where the database that was looked at: "database shop at db:5432". Neither has a user or a password.
	Table, Where string
	// There tells that the database has the table, Registered that it has the source.
	There, Registered bool
	// Renamed is what a table that is not there any more is called now; "" when nothing tells.
	Renamed string
	// Sources are the tables of all sources of this database, in alphabetical order; nil when there are none, or when they cannot be read.
	Sources []string
}

// Error says which of the two is missing, what there is instead, and which command makes it.
func (e *UnknownTableError) Error() string {
	up := "outbox migrate up --table " + advice.Word(e.Table)
	switch {
	case e.There:
		return fmt.Sprintf("the table is there, and not registered as an outbox, in %s; run: %s", e.Where, up)
	case e.Renamed != "":
		return fmt.Sprintf("there is no such table any more in %s: it was renamed to %s; give it its name back, or relay it under the new one (run outbox migrate up --table %s first)",
			e.Where, e.Renamed, advice.Word(e.Renamed))
	case e.Registered:
		return fmt.Sprintf("there is no such table any more in %s: it was registered as an outbox, and was dropped or renamed since; run: %s", e.Where, up)
	case len(e.Sources) > 0:
		return fmt.Sprintf("there is no such table in %s, which has the outboxes %s; name one of them, or run: %s", e.Where, strings.Join(e.Sources, ", "), up)
	}
	return fmt.Sprintf("there is no such table in %s, which has no outbox at all: connect to another database, or run: %s", e.Where, up)
}

// UnknownTable looks at what there is instead of the table. What cannot be found out is left out.
func UnknownTable(ctx context.Context, q Querier, table Table) error {
	e := &UnknownTableError{Table: table.String(), Where: whereabouts(ctx, q)}
	// Without an answer to the first question nothing is there to be denied; without one to the last there is no schema outbox, or no right to read it.
	_ = q.QueryRow(ctx, `SELECT EXISTS (`+TableSQL+`)`, table.Schema, table.Name).Scan(&e.There)
	var renamed string
	// A table that is renamed keeps its index.
	if err := q.QueryRow(ctx, `
SELECT c.relname FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_class c ON c.oid = i.indrelid
JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'published_at'
WHERE n.nspname = $1 AND x.relname = 'ix_' || $2::text || '_unpublished' AND c.relname <> $2 AND c.relkind IN ('r', 'p')`, table.Schema, table.Name).Scan(&renamed); err == nil {
		e.Renamed = Table{table.Schema, renamed}.String()
	}
	rows, err := q.Query(ctx, `SELECT table_schema, table_name FROM outbox.source ORDER BY table_schema, table_name`)
	if err != nil {
		return Misconfigured(e)
	}
	var t Table
	_, _ = pgx.ForEachRow(rows, []any{&t.Schema, &t.Name}, func() error {
		e.Sources = append(e.Sources, t.String())
		e.Registered = e.Registered || t == table
		return nil
	})
	return Misconfigured(e)
}

// whereabouts names the database, and the server as it was asked for: behind a pooler, it knows itself by another address.
func whereabouts(ctx context.Context, q Querier) string {
	where := "this database"
	var name string
	if err := q.QueryRow(ctx, `SELECT current_database()`).Scan(&name); err == nil {
		where = "database " + name
	}
	var cfg *pgx.ConnConfig
	switch c := q.(type) {
	case *pgx.Conn:
		cfg = c.Config()
	case *pgxpool.Pool:
		cfg = c.Config().ConnConfig
	default:
		return where
	}
	if filepath.IsAbs(cfg.Host) {
		return fmt.Sprintf("%s at %s (port %d)", where, cfg.Host, cfg.Port)
	}
	return where + " at " + net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
}
