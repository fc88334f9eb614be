package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// placeSQL is a sentence of the row %[2]s of the table that stands where another one should go: which event it is, and whether it is published. Keys are left out: in a job,
// texts that differ in ids alone count as one reason.
const placeSQL = `format('event %%s (id %%s) of topic %%s, %%s', %[2]s.event_id, %[2]s.id, %[2]s.topic,
    CASE WHEN %[2]s.published_at IS NULL THEN 'unpublished' ELSE 'published since ' || to_char(%[2]s.published_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END) FROM %[1]s %[2]s`

// keptOut says of an event that was to be restored what of the table refuses the row: the server's words, with the constraint in full, the columns whose values do not fit, and
// the row that stands in the place, as far as they can be found. It never repeats what the row holds.
func (b *batch) keptOut(ctx context.Context, r request, err error) string {
	var refused *pgconn.PgError
	if r.event == nil || !errors.As(err, &refused) || pg.Code(err) == "42501" {
		return b.explain(VerbRestore, err)
	}
	said := refused.Message
	if repeatsValues(refused.Code) {
		said = valueRefused
		if columns := b.misfits(ctx, *r.event); columns != "" {
			said = "what it has for " + columns + " does not fit there"
		}
	}
	text := fmt.Sprintf("event %s (id %d) cannot come back: %s (SQLSTATE %s)", r.event.EventID, r.event.ID, said, refused.Code)
	switch refused.Code {
	case "23505":
		text += b.definition(ctx, refused.ConstraintName) + b.standing(ctx, r)
	case "23503":
		text += b.definition(ctx, refused.ConstraintName) + "; the row that it points to is not there: write that one again first"
	case "23514":
		text += b.definition(ctx, refused.ConstraintName) + "; correct outbox.dead_event.event, or the constraint"
	case "23502":
		text += fmt.Sprintf("; give column %q a value in outbox.dead_event.event, or a default", refused.ColumnName)
	default:
		if at := raisedAt(refused); at != "" {
			text += ": " + at
		} else if repeatsValues(refused.Code) {
			text += "; correct outbox.dead_event.event, or the table"
		}
	}
	return text
}

// misfits names the columns that do not take what the dead event has for them, with their types; "" when there is none, as where a trigger is at fault.
func (b *batch) misfits(ctx context.Context, event relay.Ref) string {
	var found []string
	for _, c := range b.columns {
		name := pgx.Identifier{c.name}.Sanitize()
		err := pgx.BeginFunc(ctx, b.tx, func(point pgx.Tx) error {
			_, err := point.Exec(ctx, fmt.Sprintf(`
SELECT r.* FROM outbox.dead_event d CROSS JOIN LATERAL jsonb_to_record(d.event) AS r(%s %s)
WHERE d.source = $1 AND d.id = $2 AND d.event_id = $3::text::uuid`, name, c.kind), b.row.ID, event.ID, event.EventID.String())
			return err
		})
		if repeatsValues(pg.Code(err)) {
			found = append(found, fmt.Sprintf("column %q (%s)", c.name, c.kind))
		}
	}
	return strings.Join(found, ", ")
}

// standing names the row that has the event's id for consumers already: most often the event was written again. Where it cannot be found it says nothing.
func (b *batch) standing(ctx context.Context, r request) string {
	place := b.word(ctx, fmt.Sprintf("SELECT "+placeSQL+" WHERE t.event_id = $1::text::uuid LIMIT 1", b.row.Table.SQL(), "t"), r.event.EventID.String())
	if place == "" {
		return ""
	}
	return ". In its place stands " + place + ": the event was written again; delete that row, or leave the dead event where it is"
}

// definition is what a constraint of the table demands, or a unique index that is none.
func (b *batch) definition(ctx context.Context, name string) string {
	text := b.word(ctx, `
SELECT text FROM (
    SELECT 1 AS n, pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE conrelid = $1::text::regclass AND conname = $2::text
    UNION ALL SELECT 2, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = $1::text::regclass AND c.relname = $2::text
) t ORDER BY n LIMIT 1`, b.row.Table.SQL(), name)
	if text == "" {
		return ""
	}
	return ": " + text
}

// word reads one text, or "" where that fails: under a savepoint, so that the batch goes on.
func (b *batch) word(ctx context.Context, sql string, args ...any) (text string) {
	err := pgx.BeginFunc(ctx, b.tx, func(point pgx.Tx) error { return point.QueryRow(ctx, sql, args...).Scan(&text) })
	if err != nil {
		return ""
	}
	return text
}
