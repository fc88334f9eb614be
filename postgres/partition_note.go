package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A partition that is about to be detached has a comment that says which partition of which table it is. One that was detached and is neither dropped nor attached
// again is found by it.

// noteBegins is how such a comment begins; a JSON object follows.
const noteBegins = "outbox prune detaches this: "

// detachNote is what has to be known to attach a table again.
type detachNote struct {
	Table string `json:"table"`
	From  string `json:"from"`
	To    string `json:"to"`
}

// note writes the comment. A comment cannot be a parameter.
func (d *definition) note(ctx context.Context, part partition) error {
	text, err := json.Marshal(detachNote{Table: d.row.table.sql(), From: part.from, To: part.to})
	if err != nil {
		return err
	}
	_, err = d.conn.Exec(ctx, fmt.Sprintf("COMMENT ON TABLE %s IS %s", part.name.sql(), bound(noteBegins+string(text), "NULL")))
	return err
}

// forget takes the comment away from a partition that stays.
func (d *definition) forget(ctx context.Context, part partition) error {
	if _, err := d.conn.Exec(ctx, fmt.Sprintf("COMMENT ON TABLE %s IS NULL", part.name.sql())); err != nil {
		return fmt.Errorf("take the note away from partition %s, which is attached again: %w", part.name, err)
	}
	return nil
}

// detached finds tables that were partitions of this one when somebody was killed. What is a partition still is none of them, whatever its comment says.
func (d *definition) detached(ctx context.Context) ([]partition, error) {
	rows, err := d.conn.Query(ctx, `
SELECT n.nspname::text, c.relname::text, greatest(c.reltuples, 0)::bigint, e.description
FROM pg_description e JOIN pg_class c ON c.oid = e.objoid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE e.classoid = 'pg_class'::regclass AND e.objsubid = 0 AND starts_with(e.description, $1) AND c.relkind = 'r' AND NOT c.relispartition
ORDER BY c.oid`, noteBegins)
	if err != nil {
		return nil, fmt.Errorf("look for detached partitions of %s: %w", d.row.table, err)
	}
	var left []partition
	var part partition
	var text string
	_, err = pgx.ForEachRow(rows, []any{&part.name.schema, &part.name.name, &part.rows, &text}, func() error {
		var n detachNote
		if json.Unmarshal([]byte(strings.TrimPrefix(text, noteBegins)), &n) == nil && n.Table == d.row.table.sql() {
			part.from, part.to = n.From, n.To
			left = append(left, part)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for detached partitions of %s: %w", d.row.table, err)
	}
	return left, nil
}
