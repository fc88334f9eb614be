package outbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of the headers that the relay makes itself.
const (
	// HeaderEventID is the header that carries [Event.ID], in lower case with hyphens.
	HeaderEventID = "x-event-id"
	// HeaderEventType is the header that carries [Event.Type].
	HeaderEventType = "x-event-type"
)

// What the question for the headers column is answered with, besides the column's type.
const (
	noTable  = "no table"
	noColumn = "no column"
)

// Question returns a query to ask before SQL in the same transaction; it returns one row with one text. "" means that there is nothing to
// ask: no event has headers, or the writer assumes the column.
func (p *Prepared) Question() (sql string, args []any) {
	if !p.heads || !p.ask {
		return "", nil
	}
	return `SELECT CASE WHEN to_regclass($1::text) IS NULL THEN '` + noTable + `' ELSE coalesce((
  SELECT format_type(coalesce(nullif(t.typbasetype, 0), t.oid), NULL)
  FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  WHERE a.attrelid = to_regclass($1::text) AND a.attname = 'headers' AND a.attnum > 0 AND NOT a.attisdropped
), '` + noColumn + `') END`, []any{p.table}
}

// Answer returns an [ErrNoHeadersColumn] if, by the answer to Question, the write would fail. The transaction goes on. Call it before SQL and Args: headers that only the
// context has brought are left out where there is no column for them.
func (p *Prepared) Answer(answer string) error {
	switch {
	case answer == "jsonb":
		return nil
	case answer == noTable:
		return fmt.Errorf("write events into %s: no such table: create it, or name its schema in the configuration", p.table)
	case !p.own:
		p.heads = false
		return nil
	case answer == noColumn:
		return fmt.Errorf("write events into %s: %w: %s", p.table, ErrNoHeadersColumn, p.addColumn())
	}
	return fmt.Errorf("write events into %s: %w: it is of type %s: change it to jsonb, or write the events without headers",
		p.table, ErrNoHeadersColumn, answer)
}

func (p *Prepared) addColumn() string {
	return fmt.Sprintf("add it with ALTER TABLE %s ADD COLUMN headers jsonb, or write the events without headers", p.table)
}

// headersText returns the headers as a JSON object sorted by name, "" for none. Names and values are checked by checkHeaders.
func headersText(headers map[string]string) (string, *fault) {
	if len(headers) == 0 {
		return "", nil
	}
	text, err := marshal(headers)
	if err != nil {
		return "", faultf("correct them", "cannot be marshalled: %v", err)
	}
	return string(text), nil
}

func anyHeaders(events []Event) bool {
	return slices.ContainsFunc(events, func(e Event) bool { return len(e.Headers) > 0 })
}

// withHeaders returns the events with the given headers, and leaves the caller's events and maps as they are. A trace is told by several headers, which must not be mixed
// with those of another one: an event that has one of them keeps its own.
func withHeaders(events []Event, given map[string]string) []Event {
	if len(given) == 0 {
		return events
	}
	events = slices.Clone(events)
	for i := range events {
		if hasAny(events[i].Headers, given) {
			continue
		}
		all := make(map[string]string, len(events[i].Headers)+len(given))
		maps.Copy(all, events[i].Headers)
		maps.Copy(all, given)
		events[i].Headers = all
	}
	return events
}

// hasAny compares names as HTTP does: consumers may.
func hasAny(headers, names map[string]string) bool {
	for own := range headers {
		for name := range names {
			if strings.EqualFold(own, name) {
				return true
			}
		}
	}
	return false
}

func checkHeaders(headers map[string]string, report func(field string, f *fault)) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		field := fmt.Sprintf("Headers[%q]", name)
		report(field, checkHeaderName(name))
		report(field, checkText(headers[name]))
	}
}

func checkHeaderName(name string) *fault {
	if name == "" {
		return &fault{"the name is empty", "give it a name"}
	}
	if strings.EqualFold(name, HeaderEventID) || strings.EqualFold(name, HeaderEventType) {
		return &fault{"the name is taken", "the relay makes this header from the event's ID or Type: use another name"}
	}
	if f := checkText(name); f != nil {
		return &fault{"the name " + f.text, f.remedy}
	}
	return nil
}
