package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// column is one of the outbox table's.
type column struct {
	name string
	// kind is the type, as SQL; of JSON it is json or jsonb, whatever domains there are over it.
	kind string
	// generated ones are computed and cannot be written; required ones are NOT NULL without a default; json ones hold JSON, in which a null is a value,
	// and text ones hold it as it was written.
	generated, required, notNull, json, text bool
}

// tableColumns reads them anew for each batch: the table is the services', and may be changed at any time.
func tableColumns(ctx context.Context, tx pgx.Tx, table pg.Table) ([]column, error) {
	rows, err := tx.Query(ctx, `
SELECT a.attname::text, CASE WHEN d.json THEN d.base::text ELSE format_type(a.atttypid, a.atttypmod) END, a.attgenerated <> '',
    (a.attnotnull OR d.notnull) AND NOT (a.atthasdef OR d.hasdefault) AND a.attidentity = '', a.attnotnull OR d.notnull, d.json, d.base = 'json'::regtype
FROM pg_attribute a CROSS JOIN LATERAL (
    WITH RECURSIVE t AS (
        SELECT oid, typbasetype, typnotnull, typdefault FROM pg_type WHERE oid = a.atttypid
        UNION ALL SELECT b.oid, b.typbasetype, b.typnotnull, b.typdefault FROM t JOIN pg_type b ON b.oid = t.typbasetype
    )
    SELECT b.base, b.base IN ('json'::regtype, 'jsonb'::regtype) AS json, b.notnull, b.hasdefault FROM (
        SELECT max(oid) FILTER (WHERE typbasetype = 0)::regtype AS base, bool_or(typnotnull) AS notnull, bool_or(typdefault IS NOT NULL AND typbasetype <> 0) AS hasdefault FROM t) b
) d
WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, table.SQL())
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", table, err)
	}
	columns, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c column, err error) {
		err = row.Scan(&c.name, &c.kind, &c.generated, &c.required, &c.notNull, &c.json, &c.text)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", table, err)
	}
	return columns, nil
}

// remains is a dead event that is to be restored.
type remains struct {
	ref relay.Ref
	key relay.Key
	// keys are those of the event's JSON, sorted: the columns of the table when it died.
	keys []string
	// place is the row of the table that has the id, in words; "" when there is none.
	place string
	// parkedAt is the event at which the key is parked; the zero Ref if it is not.
	parkedAt relay.Ref
	// letter is the dead-letter topic that it was sent to; "" when there is none.
	letter string
}

// restore puts dead events back into the table under their ids, unpublished. The relay reads their keys again from the oldest event on, so they go out in
// their places.
func (b *batch) restore(ctx context.Context, tx pgx.Tx, rs []request) ([]reply, error) {
	if b.columns == nil {
		var err error
		if b.columns, err = tableColumns(ctx, tx, b.row.Table); err != nil {
			return nil, err
		}
	}
	replies := make([]reply, len(rs))
	for i, r := range rs {
		if r.event == nil {
			replies[i] = refused("restore names no event")
		}
	}
	shapes, err := b.exhume(ctx, tx, rs, replies)
	if err != nil {
		return nil, err
	}
	for _, shape := range shapes {
		if err := b.putBack(ctx, tx, shape); err != nil {
			return nil, err
		}
	}
	return replies, b.fill(ctx, tx, rs, replies, finding.whyNotRestored)
}

// exhume locks the dead events and groups those that can be put back by the columns that they have. The others get their replies, and these the replies of
// success.
func (b *batch) exhume(ctx context.Context, tx pgx.Tx, rs []request, replies []reply) (map[string][]remains, error) {
	ids, eventIDs := refsOf(rs)
	rows, err := tx.Query(ctx, fmt.Sprintf(`
SELECT u.n, d.id, d.event_id, d.topic, d.partition_key, ARRAY(SELECT k FROM jsonb_object_keys(d.event - '`+deadTexts+`') k ORDER BY k COLLATE "C"),
    coalesce((SELECT %s WHERE t.id = d.id), ''),
    coalesce((SELECT p.id FROM outbox.parked_key p WHERE p.source = $1 AND p.key_hash = u.hash), 0),
    coalesce((SELECT p.event_id FROM outbox.parked_key p WHERE p.source = $1 AND p.key_hash = u.hash), '%s'),
    coalesce(d.letter_topic, '')
FROM unnest($2::bigint[], $3::text[]::uuid[], $4::bytea[]) WITH ORDINALITY u(id, event_id, hash, n)
JOIN outbox.dead_event d ON d.source = $1 AND d.id = u.id AND d.event_id = u.event_id
FOR UPDATE OF d SKIP LOCKED`, fmt.Sprintf(placeSQL, b.row.Table.SQL(), "t"), uuid.Nil), b.row.ID, ids, eventIDs, hashesOf(rs))
	if err != nil {
		return nil, fmt.Errorf("lock dead events: %w", err)
	}
	shapes := map[string][]remains{}
	var n int
	var d remains
	_, err = pgx.ForEachRow(rows, []any{&n, &d.ref.ID, &d.ref.EventID, &d.key.Topic, &d.key.PartitionKey, &d.keys, &d.place, &d.parkedAt.ID, &d.parkedAt.EventID, &d.letter}, func() error {
		if replies[n-1] = b.judge(rs[n-1], d); replies[n-1].problem == "" {
			shape := strings.Join(d.keys, "\x00")
			shapes[shape] = append(shapes[shape], d)
		}
		d.keys = nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("lock dead events: %w", err)
	}
	return shapes, nil
}

// judge says what is in the way of a dead event, or what its restoring will have done.
func (b *batch) judge(r request, d remains) reply {
	name := fmt.Sprintf("event %s (id %d)", d.ref.EventID, d.ref.ID)
	switch {
	case d.key != r.key:
		return refused("%s is of another topic or partition key than the request", name)
	case d.place != "":
		return refused("the table has a row with id %d, so %s cannot come back in its place: the id was issued again, or the event was written again by hand; there stands %s",
			d.ref.ID, name, d.place)
	}
	if gone := without(d.keys, b.columns); len(gone) > 0 {
		return refused("%s has values for columns that the table does not have any more: %s; add them again, or take them out of outbox.dead_event.event", name, strings.Join(gone, ", "))
	}
	for _, c := range b.columns {
		if c.required && !slices.Contains(d.keys, c.name) {
			return refused("%s is older than column %q, which is NOT NULL and has no default: give it one (ALTER TABLE %s ALTER COLUMN %s SET DEFAULT ...) and restore the event then",
				name, c.name, b.row.Table.SQL(), pgx.Identifier{c.name}.Sanitize())
		}
	}
	overtaken := b.overtaken[d.ref]
	outcome := "restored: " + name + " goes out" + overtaken.place()
	if d.parkedAt != (relay.Ref{}) {
		outcome = fmt.Sprintf("restored: %s waits in its place until its key, which is parked at event %s (id %d), goes on%s", name, d.parkedAt.EventID, d.parkedAt.ID, overtaken.sentence())
	}
	if d.letter != "" {
		outcome += "; it is in the dead-letter topic " + d.letter + ", too"
	}
	return reply{outcome: outcome, changed: true}
}

// without returns the keys that are no columns.
func without(keys []string, columns []column) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return slices.ContainsFunc(columns, func(c column) bool { return c.name == key })
	})
}

// errKeptOut is of rows that an INSERT does not bring into the table.
var errKeptOut = errors.New("the table keeps the row out: a trigger, or row-level security, lets no INSERT through")

// putBack moves dead events that have the same columns. A column that was added since takes its default.
func (b *batch) putBack(ctx context.Context, tx pgx.Tx, dead []remains) error {
	refs := make([]relay.Ref, len(dead))
	for i, d := range dead {
		refs[i] = d.ref
	}
	refs = inOrder(refs)
	ids, eventIDs := make([]int64, len(refs)), make([]string, len(refs))
	for i, ref := range refs {
		ids[i], eventIDs[i] = ref.ID, ref.EventID.String()
	}
	names, values, record := b.insertion(dead[0].keys)
	table := b.row.Table.SQL()
	tag, err := tx.Exec(ctx, fmt.Sprintf(`
WITH back AS (
    DELETE FROM outbox.dead_event d USING unnest($2::bigint[], $3::text[]::uuid[]) u(id, event_id)
    WHERE d.source = $1 AND d.id = u.id AND d.event_id = u.event_id RETURNING d.event
)
INSERT INTO %[1]s (%[2]s) OVERRIDING SYSTEM VALUE
SELECT %[3]s FROM back CROSS JOIN LATERAL jsonb_to_record(back.event) AS r(%[4]s)`, table, names, values, record), b.row.ID, ids, eventIDs)
	if err != nil {
		return fmt.Errorf("restore dead events: %w", err)
	}
	if int(tag.RowsAffected()) != len(dead) {
		return errKeptOut
	}
	return nil
}

// insertion lists the columns that are written, their values of the record r, and what that has. It has no other columns, which a domain would not let be NULL. JSON null reads
// as NULL; where a column cannot be NULL, it was a value.
func (b *batch) insertion(keys []string) (names, values, record string) {
	var ns, vs, rs []string
	for _, c := range b.columns {
		if c.generated || c.name != "published_at" && !slices.Contains(keys, c.name) {
			continue
		}
		name := pgx.Identifier{c.name}.Sanitize()
		value := c.exact("back.event", "r."+name)
		switch {
		case c.name == "published_at":
			value = "NULL"
		case c.json && c.notNull:
			value = "coalesce(" + value + ", 'null')"
		}
		ns, vs, rs = append(ns, name), append(vs, value), append(rs, name+" "+c.kind)
	}
	return strings.Join(ns, ", "), strings.Join(vs, ", "), strings.Join(rs, ", ")
}
