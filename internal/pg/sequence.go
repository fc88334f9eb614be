package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// TableSQL finds a table, or the parent of partitions, by its schema and its name.
const TableSQL = `
SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p')`

// Sequence is what a table's ids are drawn from.
type Sequence struct {
	// Name is quoted, "" for none.
	Name             string
	Cache, Increment int64
	// CanRead tells that the current role may read it.
	Cycle, CanRead bool
}

// ReadSequence reads what the ids of a table, given by its oid, are drawn from.
func ReadSequence(ctx context.Context, q Querier, table uint32) (Sequence, error) {
	var s Sequence
	err := q.QueryRow(ctx, `
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), p.seqcache, p.seqincrement, p.seqcycle,
       has_sequence_privilege(c.oid, 'SELECT')
FROM pg_attribute a
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
JOIN pg_depend o ON (o.classid = 'pg_class'::regclass AND o.refclassid = 'pg_class'::regclass
                     AND o.refobjid = a.attrelid AND o.refobjsubid = a.attnum AND o.deptype IN ('i', 'a'))
                 OR (o.classid = 'pg_attrdef'::regclass AND o.objid = d.oid AND o.refclassid = 'pg_class'::regclass)
JOIN pg_sequence p ON p.seqrelid = CASE WHEN o.classid = 'pg_class'::regclass THEN o.objid ELSE o.refobjid END
JOIN pg_class c ON c.oid = p.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE a.attrelid = $1::oid AND a.attname = 'id'
ORDER BY (o.classid = 'pg_attrdef'::regclass) DESC LIMIT 1`, table).Scan(&s.Name, &s.Cache, &s.Increment, &s.Cycle, &s.CanRead)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return s, fmt.Errorf("read the id's sequence: %w", err)
	}
	return s, nil
}
