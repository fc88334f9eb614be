package outboxtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/outboxsql"
)

// Table is an outbox table that is not the one that the functions of this package take: outbox_event, as the search_path finds it.
type Table struct {
	// Schema is the table's schema. Default: what the search_path says, and public for [Table.Drain].
	Schema string
	// Name is the table's name without its schema. Default: [outbox.DefaultTable].
	Name string
}

// Written returns the events that the transaction has written so far, in their order, those after a savepoint as well. Payloads are json.RawMessage, as
// PostgreSQL prints them. The transaction goes on.
func Written(t testing.TB, tx outbox.Tx) []outbox.Event {
	t.Helper()
	return Table{}.Written(t, tx)
}

// WrittenSQL is [Written] for a transaction of database/sql.
func WrittenSQL(t testing.TB, tx outboxsql.Tx) []outbox.Event {
	t.Helper()
	return Table{}.WrittenSQL(t, tx)
}

// RequireWritten fails the test unless the transaction has written these events so far, no others, and in this order; without any, unless it has written none.
// The failure shows what differs. It returns the events.
func RequireWritten(t testing.TB, tx outbox.Tx, wants ...Want) []outbox.Event {
	t.Helper()
	return Table{}.RequireWritten(t, tx, wants...)
}

// RequireWrittenSQL is [RequireWritten] for a transaction of database/sql.
func RequireWrittenSQL(t testing.TB, tx outboxsql.Tx, wants ...Want) []outbox.Event {
	t.Helper()
	return Table{}.RequireWrittenSQL(t, tx, wants...)
}

// RequireWritten is the function of that name, for this table.
func (table Table) RequireWritten(t testing.TB, tx outbox.Tx, wants ...Want) []outbox.Event {
	t.Helper()
	return require(t, table.Written(t, tx), wants)
}

// RequireWrittenSQL is the function of that name, for this table.
func (table Table) RequireWrittenSQL(t testing.TB, tx outboxsql.Tx, wants ...Want) []outbox.Event {
	t.Helper()
	return require(t, table.WrittenSQL(t, tx), wants)
}

// Written is the function of that name, for this table.
func (table Table) Written(t testing.TB, tx outbox.Tx) []outbox.Event {
	t.Helper()
	return table.written(t, func(into *string) error { return tx.QueryRow(t.Context(), table.writtenSQL()).Scan(into) })
}

// WrittenSQL is the function of that name, for this table.
func (table Table) WrittenSQL(t testing.TB, tx outboxsql.Tx) []outbox.Event {
	t.Helper()
	return table.written(t, func(into *string) error { return tx.QueryRowContext(t.Context(), table.writtenSQL()).Scan(into) })
}

func (table Table) written(t testing.TB, ask func(into *string) error) []outbox.Event {
	t.Helper()
	var text string
	if err := ask(&text); err != nil {
		t.Fatalf("read what the transaction has written to %s: %v", table.sql(), err)
	}
	events, err := readRows(text)
	if err != nil {
		t.Fatalf("read what the transaction has written to %s: %v", table.sql(), err)
	}
	return events
}

func (table Table) sql() string {
	if table.Schema == "" {
		return pgx.Identifier{table.name()}.Sanitize()
	}
	return pgx.Identifier{table.Schema, table.name()}.Sanitize()
}

func (table Table) name() string { return cmp.Or(table.Name, outbox.DefaultTable) }

// writtenSQL is one row with one text, so that every driver reads it alike. It walks the partial index of unpublished events.
//
// A row is the transaction's own if it is visible and whoever wrote it is still in progress. Its xmin may be that of a savepoint, which only pg_xact_status
// counts to the transaction; it is never before the transaction's own. The column headers is optional.
func (table Table) writtenSQL() string {
	return `SELECT coalesce(jsonb_agg(jsonb_build_object('event_id', e.event_id, 'aggregate_type', e.aggregate_type, 'aggregate_id', e.aggregate_id, 'type', e.event_type,
	'topic', e.topic, 'key', e.partition_key, 'payload', e.payload::text, 'headers', to_jsonb(e) -> 'headers') ORDER BY e.id), '[]')::text
FROM ` + table.sql() + ` e,
	LATERAL (SELECT pg_current_xact_id_if_assigned()::text::bigint AS own) me,
	LATERAL (SELECT (e.xmin::text::bigint - me.own) & 4294967295 AS later) x
WHERE e.published_at IS NULL
	AND CASE WHEN x.later < 2147483648 THEN pg_xact_status((me.own + x.later)::text::xid8) END = 'in progress'`
}

type row struct {
	EventID       uuid.UUID                  `json:"event_id"`
	AggregateType string                     `json:"aggregate_type"`
	AggregateID   string                     `json:"aggregate_id"`
	Type          string                     `json:"type"`
	Topic         string                     `json:"topic"`
	Key           string                     `json:"key"`
	Payload       string                     `json:"payload"`
	Headers       map[string]json.RawMessage `json:"headers"`
}

func readRows(text string) ([]outbox.Event, error) {
	var rows []row
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		return nil, fmt.Errorf("decode rows: %w", err)
	}
	events := make([]outbox.Event, len(rows))
	for i, r := range rows {
		events[i] = outbox.Event{
			ID: r.EventID, AggregateType: r.AggregateType, AggregateID: r.AggregateID, Type: r.Type, Topic: r.Topic, PartitionKey: r.Key,
			Payload: json.RawMessage(r.Payload), Headers: headers(r.Headers),
		}
	}
	return events, nil
}

// headers takes texts as they are, and what another writer has put there as JSON.
func headers(raw map[string]json.RawMessage) map[string]string {
	if len(raw) == 0 {
		return nil
	}
	all := make(map[string]string, len(raw))
	for name, value := range raw {
		var s string
		if value[0] != '"' || json.Unmarshal(value, &s) != nil {
			s = string(value)
		}
		all[name] = s
	}
	return all
}
