package postgres

import (
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox/internal/pg"
)

// columnNames are the columns of an event beside its id.
var columnNames = [...]string{"event_id", "event_type", "topic", "partition_key", "payload", "headers", "created_at"}

// aggregateColumns follow them where aggregates are asked for.
var aggregateColumns = [...]string{"aggregate_type", "aggregate_id"}

// columns lists an event's columns, beside its id, as text where the type of the column is the user's choice.
func (r *reader) columns(s *statement) string {
	return strings.Join(r.expressions(s), ", ")
}

// columnsIf is columns, all NULL where the condition is not true.
func (r *reader) columnsIf(s *statement, condition string) string {
	list := r.expressions(s)
	for i, e := range list {
		list[i] = "CASE WHEN " + condition + " THEN " + e + " END"
	}
	return strings.Join(list, ", ")
}

// headersSQL tells whether the table has the optional column headers in the snapshot of the statement: whoever writes an event with headers has seen the column, so where
// such an event is visible, the column is. It is asked once for a whole statement.
func headersSQL(s *statement, table pg.Table) string {
	return "EXISTS (SELECT FROM pg_attribute h WHERE h.attrelid = " + s.param(pgtype.TextOID, table.SQL()) + "::text::regclass AND h.attname = 'headers' AND NOT h.attisdropped)"
}

// expressions are the columns one by one. A row that a looser table lets be without event_id is an event all the same: it is refused by name.
func (r *reader) expressions(s *statement) []string {
	list := make([]string, len(columnNames))
	for i, name := range columnNames {
		switch name {
		case "event_id":
			list[i] = "coalesce(e.event_id, '" + uuid.Nil.String() + "'::uuid)"
		case "created_at":
			list[i] = "e.created_at"
		case "payload":
			list[i] = r.printable(s, bounded("e.payload"))
		case "headers":
			list[i] = "NULL::text"
			if r.row.Headers {
				list[i] = r.printable(s, bounded("e.headers"))
			}
		default:
			list[i] = "e." + name + "::text"
		}
	}
	if r.row.Aggregates {
		for _, name := range aggregateColumns {
			list = append(list, "e."+name+"::text")
		}
	}
	return list
}

// rawColumns lists the columns as they are, for an inner query.
func (r *reader) rawColumns() string {
	raw := "e." + strings.Join(columnNames[:], ", e.")
	if !r.row.Headers {
		raw = strings.ReplaceAll(raw, "e.headers, ", "")
	}
	if r.row.Aggregates {
		raw += ", e." + strings.Join(aggregateColumns[:], ", e.")
	}
	return raw
}
