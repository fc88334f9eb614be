package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// facts are what the catalog says of a table. Every query is bound to the table's oid, which is found by schema and name: tables of the
// same name in other schemas do not count.
type facts struct {
	table       Table
	oid         uint32
	kind        string // relkind: r is a table, p a partitioned one
	persistence string // relpersistence: p is permanent
	isPartition bool
	rowSecurity bool
	size        string // about all its bytes, such as 12 GB; "" when the server has not counted them
	columns     map[string]columnFacts
	order       []string // the columns' names in their order
	partitionBy []string // the columns of the partition key; none for an ordinary table
	sequence    *sequenceFacts
	indexes     []indexFacts
	taken       []string // names in the table's schema that the partial index cannot have
}

type columnFacts struct {
	base      string // the type without length and domain, as format_type prints it
	shown     string // the type as it was declared
	notNull   bool
	def       string // the default's expression
	identity  string // a is ALWAYS, d is BY DEFAULT
	generated string
}

// sequenceFacts are those of the sequence that fills the column id.
type sequenceFacts struct {
	schema, name     string
	increment, cache int64
	max, start       int64
	cycle            bool
	owned            bool
}

// SQL is the sequence's name as it stands in a statement.
func (s sequenceFacts) SQL() string { return pgx.Identifier{s.schema, s.name}.Sanitize() }

type indexFacts struct {
	schema, name string
	valid        bool
	unique       bool
	method       string
	predicate    string   // "" for a whole index
	columns      []string // key columns in order; "" stands for an expression
}

// SQL is the index's name as it stands in a statement.
func (i indexFacts) SQL() string { return pgx.Identifier{i.schema, i.name}.Sanitize() }

// errNoRelation: there is nothing of that name.
var errNoRelation = errors.New("no such relation")

func readFacts(ctx context.Context, q Querier, t Table) (*facts, error) {
	f := &facts{table: t, columns: map[string]columnFacts{}}
	err := q.QueryRow(ctx, `SELECT c.oid, c.relkind::text, c.relpersistence::text, c.relispartition, c.relrowsecurity,
			coalesce((SELECT pg_size_pretty(nullif(sum(p.relpages::bigint), 0) * current_setting('block_size')::bigint) FROM pg_class t JOIN pg_class p
				ON p.oid IN (t.oid, t.reltoastrelid) OR p.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = t.oid)
				WHERE t.relkind = 'r' AND (t.oid = c.oid OR t.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = c.oid))), '')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2`,
		pgx.QueryExecModeExec, t.Schema, t.Name).Scan(&f.oid, &f.kind, &f.persistence, &f.isPartition, &f.rowSecurity, &f.size)
	if errors.Is(err, pgx.ErrNoRows) {
		return f, errNoRelation
	}
	for _, read := range []func(context.Context, Querier) error{f.readColumns, f.readPartitionKey, f.readSequence, f.readIndexes, f.readTaken} {
		if err == nil {
			err = read(ctx, q)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the catalog about table %s: %w", t, err)
	}
	return f, nil
}

func (f *facts) readColumns(ctx context.Context, q Querier) error {
	rows, err := q.Query(ctx, `WITH RECURSIVE base AS (
			SELECT a.attnum, a.atttypid AS typ FROM pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
			UNION ALL SELECT b.attnum, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.typ AND t.typtype = 'd')
		SELECT a.attname, format_type(b.typ, NULL), format_type(a.atttypid, a.atttypmod), a.attnotnull,
			coalesce(pg_get_expr(d.adbin, d.adrelid), ''), a.attidentity::text, a.attgenerated::text
		FROM base b JOIN pg_type t ON t.oid = b.typ AND t.typtype <> 'd'
		JOIN pg_attribute a ON a.attrelid = $1 AND a.attnum = b.attnum
		LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		ORDER BY a.attnum`, pgx.QueryExecModeExec, f.oid)
	if err != nil {
		return err
	}
	var name string
	var c columnFacts
	_, err = pgx.ForEachRow(rows, []any{&name, &c.base, &c.shown, &c.notNull, &c.def, &c.identity, &c.generated}, func() error {
		f.columns[name] = c
		f.order = append(f.order, name)
		return nil
	})
	return err
}

func (f *facts) readPartitionKey(ctx context.Context, q Querier) error {
	rows, err := q.Query(ctx, `SELECT coalesce(a.attname, '') FROM pg_partitioned_table p
		CROSS JOIN unnest(p.partattrs::int2[]) WITH ORDINALITY k(att, ord)
		LEFT JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = k.att
		WHERE p.partrelid = $1 ORDER BY k.ord`, pgx.QueryExecModeExec, f.oid)
	if err != nil {
		return err
	}
	f.partitionBy, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return err
}

// sequenceOf finds the sequences behind the column id: that of an identity, the one that its default draws from, and one that only
// belongs to it; the lowest rank is where ids come from. %s stands for the table's oid. It is printed for people, who get spaces, not tabs.
const sequenceOf = `SELECT s.seqrelid, bool_or(d.deptype IN ('a', 'i')) AS owned, min(array_position('{i,n,a}'::"char"[], d.deptype)) AS rank
    FROM pg_attribute a
    LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
    JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
            AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype IN ('a', 'i')
        OR d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'n'
    JOIN pg_sequence s ON s.seqrelid = CASE WHEN d.classid = 'pg_class'::regclass THEN d.objid ELSE d.refobjid END
    WHERE a.attrelid = %s AND a.attname = 'id'
    GROUP BY s.seqrelid`

func (f *facts) readSequence(ctx context.Context, q Querier) error {
	var s sequenceFacts
	err := q.QueryRow(ctx, `SELECT n.nspname, c.relname, s.seqincrement, s.seqcache, s.seqmax, s.seqstart, s.seqcycle, o.owned
		FROM (`+fmt.Sprintf(sequenceOf, "$1")+`) o JOIN pg_sequence s USING (seqrelid)
		JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		ORDER BY o.rank LIMIT 1`, pgx.QueryExecModeExec, f.oid).
		Scan(&s.schema, &s.name, &s.increment, &s.cache, &s.max, &s.start, &s.cycle, &s.owned)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	f.sequence = &s
	return err
}

func (f *facts) readIndexes(ctx context.Context, q Querier) error {
	rows, err := q.Query(ctx, `SELECT n.nspname, c.relname, i.indisvalid, i.indisunique, m.amname, coalesce(pg_get_expr(i.indpred, i.indrelid), ''),
			ARRAY(SELECT coalesce(a.attname::text, '') FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(att, ord)
				LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.att
				WHERE k.ord <= i.indnkeyatts ORDER BY k.ord)
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_am m ON m.oid = c.relam
		WHERE i.indrelid = $1 ORDER BY c.relname`, pgx.QueryExecModeExec, f.oid)
	if err != nil {
		return err
	}
	f.indexes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i indexFacts, err error) {
		err = row.Scan(&i.schema, &i.name, &i.valid, &i.unique, &i.method, &i.predicate, &i.columns)
		return i, err
	})
	return err
}

func (f *facts) readTaken(ctx context.Context, q Querier) error {
	rows, err := q.Query(ctx, `SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname ~ '_unpublished[0-9]*$'`, pgx.QueryExecModeExec, f.table.Schema)
	if err != nil {
		return err
	}
	f.taken, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return err
}
