package retention

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// partitioning is how a table is partitioned: by ranges of one column, id or created_at.
type partitioning struct {
	oid    uint32
	table  pg.Table
	column string
	// present is the SQL of the value that is written next, such as now().
	present string
	// hasDefault tells that there is a default partition.
	hasDefault bool
	// parts are in the order of their bounds.
	parts []partition
}

// partition is one range. The bounds are texts as the catalog prints them in this session; "" is no bound.
type partition struct {
	name     pg.Table
	from, to string
	// past tells that all that is written from now on lies above it; ahead, that all lies below.
	past, ahead bool
	// pending tells that somebody detaches it, or was interrupted when he did: its rows are not among those of the table any more.
	pending bool
	oid     uint32
	// comment is what people, or an earlier run, have written on it.
	comment string
	rows    int64
}

// errPartitions refuses what is not partitioned in a way that is known here.
func errPartitions(table pg.Table, why string) error {
	return operate.Refuse(operate.CodeConflict, "%s %s: see docs/partitions.md", table, why)
}

// boundsSQL are beginning and end of a range, of the text of its bound.
const boundsSQL = `coalesce((regexp_match(bound, 'FROM \((?:''([^'']*)''|MINVALUE)\)'))[1], '') AS low, coalesce((regexp_match(bound, 'TO \((?:''([^'']*)''|MAXVALUE)\)'))[1], '') AS high`

// partitionSQL reads the partitions. Both ends of the range are cast to the column's type there, so the session's own settings read what they have printed.
const partitionSQL = `
WITH parts AS (
    SELECT c.oid, n.nspname, c.relname, i.inhdetachpending, greatest(c.reltuples, 0)::bigint AS rows, pg_get_expr(c.relpartbound, c.oid) AS bound
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE i.inhparent = $1::oid
), ranges AS (
    SELECT *, ` + boundsSQL + ` FROM parts
)
SELECT nspname::text, relname::text, low, high, coalesce(high <> '' AND high::%[1]s <= %[2]s, false), coalesce(low <> '' AND low::%[1]s > %[2]s, false),
    inhdetachpending, rows, coalesce(bound, '') = 'DEFAULT', oid, coalesce(obj_description(oid, 'pg_class'), '')
FROM ranges ORDER BY low <> '', CASE WHEN low <> '' THEN low::%[1]s END`

// readPartitioning reads the catalog.
func readPartitioning(ctx context.Context, q pg.Querier, row pg.Source) (*partitioning, error) {
	p := &partitioning{table: row.Table}
	var strategy, sequence string
	err := q.QueryRow(ctx, `
SELECT c.oid, coalesce(p.partstrat::text, ''), coalesce(CASE WHEN p.partnatts = 1 THEN a.attname::text END, '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_partitioned_table p ON p.partrelid = c.oid
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0]
WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p')`, row.Table.Schema, row.Table.Name).Scan(&p.oid, &strategy, &p.column)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, pg.UnknownTable(ctx, q, row.Table)
	case err != nil:
		return nil, fmt.Errorf("read how %s is partitioned: %w", row.Table, err)
	case strategy == "":
		return nil, errPartitions(row.Table, "is not partitioned")
	case strategy != "r" || p.column != "id" && p.column != "created_at":
		return nil, errPartitions(row.Table, "is not partitioned by ranges of id, or of created_at, alone")
	}
	kind, present := "timestamptz", "now()"
	if p.column == "id" {
		s, err := pg.ReadSequence(ctx, q, p.oid)
		if err != nil {
			return nil, err
		}
		if sequence = s.Name; sequence == "" {
			return nil, errPartitions(row.Table, "draws its ids from no sequence")
		}
		kind, present = "bigint", "(SELECT last_value + is_called::integer FROM "+sequence+")"
	}
	p.present = present
	rows, err := q.Query(ctx, fmt.Sprintf(partitionSQL, kind, present), p.oid)
	if err != nil {
		return nil, fmt.Errorf("read the partitions of %s: %w", row.Table, err)
	}
	var part partition
	var isDefault bool
	_, err = pgx.ForEachRow(rows, []any{&part.name.Schema, &part.name.Name, &part.from, &part.to, &part.past, &part.ahead, &part.pending, &part.rows, &isDefault, &part.oid, &part.comment}, func() error {
		if isDefault {
			p.hasDefault = true
			return nil
		}
		p.parts = append(p.parts, part)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the partitions of %s: %w", row.Table, err)
	}
	return p, nil
}

// missingAhead is how many partitions have to be made so that there are n beyond the one that is written to.
func (p *partitioning) missingAhead(n int) int {
	for _, part := range p.parts {
		if part.ahead && !part.pending {
			n--
		}
	}
	return max(0, n)
}

// newest is the last partition, which the next one is like.
func (p *partitioning) newest() (partition, error) {
	if len(p.parts) == 0 {
		return partition{}, errPartitions(p.table, "has no partition yet, so nobody knows how long one is to be: make the first one")
	}
	last := p.parts[len(p.parts)-1]
	if last.from == "" || last.to == "" {
		return partition{}, errPartitions(p.table, fmt.Sprintf("has a last partition, %s, without an end or a beginning, so none can follow it", last.name))
	}
	return last, nil
}

// followingSQL reckons the partitions after one: beginning, end and suffix of the name of each, and whether it lies ahead of the present. Only so many that lie ahead are
// wanted, but all before them.
//
//	$1 beginning and $2 end of the last one, $3 how many are wanted, $4 how many more are looked at
const followingSQL = `
SELECT low::text, high::text, suffix, low > %[2]s FROM (%[1]s) s WHERE low <= %[2]s
UNION ALL (SELECT low::text, high::text, suffix, true FROM (%[1]s) s WHERE low > %[2]s ORDER BY k LIMIT $3::integer)`

// The ranges that follow one of ids, and one of times. Those have the lengths of the calendar.
const (
	rangesOfIDs = `SELECT k, b AS low, b + ($2::bigint - $1::bigint) AS high, b::text AS suffix FROM
    (SELECT k, $2::bigint + k * ($2::bigint - $1::bigint) AS b FROM generate_series(0, $3::integer + $4::integer) k) s`
	rangesOfTimes = `SELECT k, (b + k * len) AT TIME ZONE z AS low, (b + (k + 1) * len) AT TIME ZONE z AS high,
    to_char(b + k * len, CASE WHEN date_trunc('day', b + k * len) = b + k * len THEN 'YYYYMMDD' ELSE 'YYYYMMDD"t"HH24MISS' END) AS suffix
FROM (SELECT z, $2::timestamptz AT TIME ZONE z AS b, age($2::timestamptz AT TIME ZONE z, $1::timestamptz AT TIME ZONE z) AS len FROM (
    SELECT CASE WHEN ($1::timestamptz AT TIME ZONE 'UTC')::time = '00:00' AND ($2::timestamptz AT TIME ZONE 'UTC')::time = '00:00' THEN 'UTC' ELSE current_setting('TimeZone') END AS z
) zone) length, generate_series(0, $3::integer + $4::integer) k`
)

// following returns the partitions after the last one, each as long as that, until n lie ahead: where the last one has ended already, nothing can be written until those
// between are there too. Lengths are those of the calendar: a month follows a month. Bounds at midnight in UTC are reckoned in UTC, whatever the session's time zone is.
func (p *partitioning) following(ctx context.Context, db pg.Runner, n int) ([]partition, error) {
	if n == 0 {
		return nil, nil
	}
	last, err := p.newest()
	if err != nil {
		return nil, err
	}
	ranges := rangesOfIDs
	if p.column == "created_at" {
		ranges = rangesOfTimes
	}
	var made []partition
	err = db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, fmt.Sprintf(followingSQL, ranges, p.present), last.from, last.to, n, operate.MaxPruneAhead)
		if err != nil {
			return err
		}
		made, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (n partition, err error) {
			var suffix string
			err = r.Scan(&n.from, &n.to, &suffix, &n.ahead)
			n.name = pg.Table{Schema: p.table.Schema, Name: partitionName(p.table.Name, suffix)}
			return n, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reckon the next partitions of %s: %w", p.table, err)
	}
	if len(made) == 0 || !made[len(made)-1].ahead {
		return nil, errPartitions(p.table, fmt.Sprintf("has a last partition, %s, that ends at %s: more than %d of its length would have to follow it until the present; make one that holds the present by hand",
			last.name, last.to, operate.MaxPruneAhead))
	}
	return made, nil
}

// partitionName keeps within what PostgreSQL takes.
func partitionName(table, suffix string) string {
	suffix = "_p" + suffix
	for len(table)+len(suffix) > pg.MaxName {
		runes := []rune(table)
		table = string(runes[:len(runes)-1])
	}
	return table + suffix
}
