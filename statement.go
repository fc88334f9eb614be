package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Statement returns one INSERT for the events into the table outbox_event, for a driver or an ORM that this module has no package for. See
// [Writer.Statement].
func Statement(events ...Event) (sql string, args []any, err error) {
	return defaultWriter().Statement(events...)
}

// Statement returns one INSERT for all the events. Run it inside the business transaction, and nowhere else. The arguments are strings for
// the parameters $1, $2, and so on; every driver takes those. Without events sql is "" and there is nothing to run.
//
// Only if some event has headers, the statement names the column headers; that the table has it is then up to the caller. Set [Event.ID]
// to know the ids, or use [Writer.Prepare]. A context's headers ([Config.ContextHeaders]) are not among them: give them to the events.
func (w *Writer) Statement(events ...Event) (sql string, args []any, err error) {
	p, err := w.Prepare(events...)
	if err != nil || p.Empty() {
		return "", nil, err
	}
	return p.SQL(), p.Args(), nil
}

// Prepared is a checked write that has not been run. It is for those who connect another driver; package outboxsql is made with it.
//
// In the business transaction: if Question is not "", ask it and give the one text that it returns to Answer; run SQL with Args; give the
// number of rows and the error to Finish. Stop at the first error.
type Prepared struct {
	table string
	ask   bool
	rows  []row
	// heads tells that headers are stored, own that they are more than the context's: those may be left out.
	heads, own bool
}

// row is an event as the table stores it.
type row struct {
	id uuid.UUID
	// columns are in the order of the INSERT; headers, the last, is "" when the event has none.
	columns [columnCount]string
}

const columnCount = 8

// Prepare fills in what the events leave out, checks everything, and returns the write. The error is an [*InvalidError].
func (w *Writer) Prepare(events ...Event) (*Prepared, error) {
	return w.prepare(nil, events)
}

// PrepareContext is [Writer.Prepare] with the headers that [Config.ContextHeaders] finds in the context.
func (w *Writer) PrepareContext(ctx context.Context, events ...Event) (*Prepared, error) {
	if w.cfg.ContextHeaders == nil || len(events) == 0 {
		return w.prepare(nil, events)
	}
	return w.prepare(w.cfg.ContextHeaders(ctx), events)
}

func (w *Writer) prepare(given map[string]string, events []Event) (*Prepared, error) {
	own := anyHeaders(events)
	events = withHeaders(events, given)
	rows, problems := w.rows(events)
	if len(problems) > 0 {
		return nil, &InvalidError{problems}
	}
	return &Prepared{table: w.table, ask: w.cfg.Headers == HeadersAsk, rows: rows, heads: anyHeaders(events), own: own}, nil
}

// Empty tells that there are no events, so nothing is to be run.
func (p *Prepared) Empty() bool { return len(p.rows) == 0 }

// IDs returns the event ids in the order of the events.
func (p *Prepared) IDs() []uuid.UUID {
	ids := make([]uuid.UUID, len(p.rows))
	for i := range p.rows {
		ids[i] = p.rows[i].id
	}
	return ids
}

// SQL returns the INSERT. Its text depends only on the table and on whether some event has headers, so that it is prepared once.
//
// PostgreSQL draws the ids after the sort, so they rise in the order of the events.
func (p *Prepared) SQL() string {
	into, from, param, alias := "", "", "", ""
	if p.heads {
		into, from, param, alias = ", headers", ", nullif(e.headers, '')::jsonb", ", $8::text[]", ", headers"
	}
	return `INSERT INTO ` + p.table + ` (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key` + into + `)
SELECT e.event_id::uuid, e.aggregate_type, e.aggregate_id, e.event_type, e.payload::jsonb, e.topic, e.partition_key` + from + `
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]` + param + `) WITH ORDINALITY
  AS e(event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key` + alias + `, ord)
ORDER BY e.ord`
}

// Args returns the arguments of SQL: text, each an array literal of one column's values.
func (p *Prepared) Args() []any {
	args := make([]any, p.width())
	for c := range args {
		args[c] = p.literal(c)
	}
	return args
}

// arrays returns the arguments for pgx, which sends arrays without escaping.
func (p *Prepared) arrays() []any {
	args := make([]any, p.width())
	for c := range args {
		values := make([]string, len(p.rows))
		for i := range p.rows {
			values[i] = p.rows[i].columns[c]
		}
		args[c] = values
	}
	return args
}

func (p *Prepared) width() int {
	if p.heads {
		return columnCount
	}
	return columnCount - 1
}

func (p *Prepared) literal(column int) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	var b strings.Builder
	for i := range p.rows {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteByte('"')
		_, _ = escape.WriteString(&b, p.rows[i].columns[column]) // a strings.Builder never fails
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// Finish returns what the write came to, given the number of rows that SQL stored and the error of running it: nil when every event is
// stored. The error is an [ErrDuplicateID], [ErrNoHeadersColumn] or [ErrNotStored] where it is one of these; the driver's error is kept
// within. After any error the caller must roll back.
func (p *Prepared) Finish(stored int64, err error) error {
	if err != nil {
		return fmt.Errorf("write events into %s: %w", p.table, p.explain(err))
	}
	if stored != int64(len(p.rows)) {
		return fmt.Errorf("write events into %s: %w: %d of %d rows: look for a trigger or rule on the table that swallows rows",
			p.table, ErrNotStored, stored, len(p.rows))
	}
	return nil
}

// explain adds what to do to the errors that people run into.
func (p *Prepared) explain(err error) error {
	var state interface{ SQLState() string } // pgx and lib/pq have it both
	if !errors.As(err, &state) {
		return err
	}
	switch state.SQLState() {
	case "23505":
		return fmt.Errorf("%w: give each event an id of its own, or leave Event.ID zero: %w", ErrDuplicateID, err)
	case "42P01":
		return fmt.Errorf("no such table: create it, or name its schema in the configuration: %w", err)
	case "42703":
		if p.heads {
			return fmt.Errorf("%w: %s: %w", ErrNoHeadersColumn, p.addColumn(), err)
		}
	}
	return err
}

func quoteTable(schema, table string) string {
	if schema == "" {
		return pgx.Identifier{table}.Sanitize()
	}
	return pgx.Identifier{schema, table}.Sanitize()
}
