package retention

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
)

// A partition that is about to be detached has a comment that says which partition of which table it is, so that it can be attached again if the run is killed. It is no proof
// that the run has detached it: somebody else may have brought that to its end, to keep the table. So it says more as soon as the run has done it, and goes when it could not.
//
// A comment needs no table of its own and no right on one, goes with the table when that is dropped, and everybody can read it.

// noteBegins is how such a comment begins; a JSON object follows.
const noteBegins = "outbox prune detaches this: "

// detachNote is what has to be known to attach a table again, or to drop it.
type detachNote struct {
	Table string `json:"table"`
	From  string `json:"from"`
	To    string `json:"to"`
	// OID and Name are of the partition: one that is restored from a dump, or renamed, is another one.
	OID  uint32 `json:"oid,omitempty"`
	Name string `json:"name,omitempty"`
	// Detached tells that the run that wrote it has detached the partition.
	Detached bool `json:"detached,omitempty"`
	// Comment is what the partition's comment was, to be put back.
	Comment string `json:"comment,omitempty"`
}

// parseNote returns nil for a comment that is none, or of a partition of another table.
func parseNote(comment string, table pg.Table) *detachNote {
	text, is := strings.CutPrefix(comment, noteBegins)
	var n detachNote
	if !is || json.Unmarshal([]byte(text), &n) != nil || n.Table != table.SQL() {
		return nil
	}
	return &n
}

// ownComment is what people have written on a partition, whether or not there is a note around it.
func ownComment(comment string, table pg.Table) string {
	if n := parseNote(comment, table); n != nil {
		return n.Comment
	}
	return comment
}

// note writes the comment. detached tells that the partition has been detached by this run.
func (d *definition) note(ctx context.Context, db executor, part partition, detached bool) error {
	text, err := json.Marshal(detachNote{
		Table: d.row.Table.SQL(), From: part.from, To: part.to, OID: part.oid, Name: part.name.SQL(), Detached: detached, Comment: ownComment(part.comment, d.row.Table),
	})
	if err != nil {
		return err
	}
	return comment(ctx, db, part.name, noteBegins+string(text))
}

// forget puts the comment of people back.
func (d *definition) forget(ctx context.Context, db executor, part partition) error {
	if err := comment(ctx, db, part.name, ownComment(part.comment, d.row.Table)); err != nil {
		return fmt.Errorf("take the note away from partition %s: %w", part.name, err)
	}
	return nil
}

// comment cannot be given its text as a parameter. Quoted as an escape string it means the same whatever standard_conforming_strings says.
func comment(ctx context.Context, db executor, table pg.Table, text string) error {
	quoted := "NULL"
	if text != "" {
		quoted = "E'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(text) + "'"
	}
	_, err := db.Exec(ctx, "COMMENT ON TABLE "+table.SQL()+" IS "+quoted)
	return err
}

// forgetUndone takes the notes away from partitions that nobody is detaching: a run was killed before it came to that. Left there, they would be on whatever people
// make of the table later.
func (d *definition) forgetUndone(ctx context.Context) error {
	for _, part := range d.parted.parts {
		if part.pending || parseNote(part.comment, d.row.Table) == nil {
			continue
		}
		if err := d.forget(ctx, d.conn, part); err != nil {
			return partitionTrouble(err, d.row)
		}
	}
	return nil
}

// notDetached follows a detach that has failed. What is half detached keeps its note, for the next run to go on.
func (d *definition) notDetached(ctx context.Context, part partition) error {
	if d.conn.IsClosed() {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	var attached bool
	err := d.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = $1::oid AND inhparent = $2::oid AND NOT inhdetachpending)`, part.oid, d.parted.oid).Scan(&attached)
	if err != nil || !attached {
		return err
	}
	return d.forget(ctx, d.conn, part)
}

// detachedSQL finds tables that are, or were, partitions and whose rows are not among those of the table: those that are being detached, and those that a note is on.
//
//	$1 schema and $2 name of the table, $3 how a note begins
const detachedSQL = `
WITH parent AS (
    SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind = 'p'
), found AS (
    SELECT c.oid, n.nspname, c.relname, greatest(c.reltuples, 0)::bigint AS rows, coalesce(i.inhdetachpending, false) AS pending, pg_get_expr(c.relpartbound, c.oid) AS bound,
        coalesce(e.description, '') AS comment, has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
            AND 2 = (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname IN ('id', 'published_at') AND NOT a.attisdropped) AS readable
    FROM parent JOIN pg_class c ON c.relkind IN ('r', 'p') JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = parent.oid
    LEFT JOIN pg_description e ON e.objoid = c.oid AND e.classoid = 'pg_class'::regclass AND e.objsubid = 0
    WHERE i.inhdetachpending OR NOT c.relispartition AND starts_with(e.description, $3)
)
SELECT oid, nspname::text, relname::text, rows, pending, comment, readable, ` + boundsSQL + ` FROM found ORDER BY NOT pending, oid`

// readDetached looks at the catalog, which everybody may read, and into the tables as far as the role may.
func readDetached(ctx context.Context, q pg.Querier, table pg.Table) ([]detached, error) {
	rows, err := q.Query(ctx, detachedSQL, table.Schema, table.Name, noteBegins)
	if err != nil {
		return nil, fmt.Errorf("look for detached partitions of %s: %w", table, err)
	}
	var all []detached
	var s detached
	_, err = pgx.ForEachRow(rows, []any{&s.oid, &s.name.Schema, &s.name.Name, &s.rows, &s.pending, &s.comment, &s.readable, &s.from, &s.to}, func() error {
		if s.note = parseNote(s.comment, table); s.note == nil && !s.pending {
			return nil
		}
		if !s.pending {
			s.from, s.to = s.note.From, s.note.To
		}
		all = append(all, s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for detached partitions of %s: %w", table, err)
	}
	for i := range all {
		if !all[i].readable {
			continue
		}
		if all[i].unpublished, err = hasUnpublished(ctx, q, all[i].name); err != nil {
			return nil, err
		}
	}
	return all, nil
}
