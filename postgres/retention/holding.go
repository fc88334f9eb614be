package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
)

// Holding is what a table holds, and who deletes from it.
type Holding struct {
	// Bytes is what the table takes with its indexes, of all partitions; Rows is how many rows it has, and RowsFrom how that is known.
	Bytes, Rows int64
	RowsFrom    RowsFrom
	// OldestSettled is when the oldest settled event was published, as far as the rows with the lowest ids tell; zero when they tell nothing.
	OldestSettled time.Time
	// OldestSettledAge is its age by the database's clock.
	OldestSettledAge time.Duration
	// Retained tells that a relay deletes settled events, By says which, OlderThan and Keep what it may delete.
	Retained  bool
	By        string
	OlderThan time.Duration
	Keep      int64
	// DeadOlderThan and AuditOlderThan are from which age on the relay By deletes dead events, and what operators have done; 0 when no relay deletes them.
	DeadOlderThan, AuditOlderThan time.Duration
	// PrunedAt is when settled events were last deleted, or that was tried; zero if never. Pruned is how many were so far.
	PrunedAt time.Time
	Pruned   int64
	// Partitioned tells that the table has partitions.
	Partitioned bool
}

// RowsFrom is how the number of a table's rows is known.
type RowsFrom string

// The ways to know it.
const (
	// RowsCounted: it is exact, of one snapshot.
	RowsCounted RowsFrom = "counted"
	// RowsEstimated: it is about that, by the server's count of what was written and deleted, or where that was reset by its last look at the table.
	RowsEstimated RowsFrom = "statistics"
	// RowsAtLeast: there are more, and the server's statistics, none or of an older time, say less than that.
	RowsAtLeast RowsFrom = "at_least"
	// RowsUnknown: there are no statistics, and the rows could not be counted in time.
	RowsUnknown RowsFrom = "unknown"
)

const (
	// rowsCounted is up to how many rows are counted: of a larger table the server's statistics are taken.
	rowsCounted = 100_000
	// holdingRows is how many of the lowest rows are looked at for the oldest settled one.
	holdingRows = 10_000
	// holdingTimeout bounds the look: after a large deletion it may find little but what vacuum has not reached.
	holdingTimeout = 3 * time.Second
)

// Holding looks at what the table holds. It takes some milliseconds, three seconds at most.
func (o *Pruner) Holding(ctx context.Context) (Holding, error) {
	row, err := o.db.Source(ctx)
	if err != nil {
		return Holding{}, err
	}
	return readHolding(ctx, o.db, row)
}

func readHolding(ctx context.Context, db pg.Runner, row pg.Source) (Holding, error) {
	h, err := pg.Glance(ctx, db, row, holdingTimeout, func(ctx context.Context, tx pgx.Tx) (Holding, error) { return readSize(ctx, tx, row) })
	if err != nil {
		return Holding{}, err
	}
	oldest, err := readOldestSettled(ctx, db, row)
	if err != nil && !yields(ctx, err) {
		return Holding{}, err
	}
	counted, cerr := pg.Glance(ctx, db, row, holdingTimeout, func(ctx context.Context, tx pgx.Tx) (n int64, err error) {
		err = tx.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM (SELECT FROM %s ORDER BY id LIMIT $1) lowest`, row.Table.SQL()), int64(rowsCounted+1)).Scan(&n)
		return n, err
	})
	if cerr != nil && !yields(ctx, cerr) {
		return Holding{}, cerr
	}
	h.weigh(counted, cerr == nil)
	if err == nil && oldest.known() {
		h.OldestSettled, h.OldestSettledAge = oldest.at, pg.Microseconds(oldest.age)
	}
	return h, nil
}

// OldestSettledAge is the age of the oldest settled event by the database's clock, as far as the rows with the lowest ids tell; 0 when they tell nothing. It is cheap enough for
// every scrape, and gives up after 3 s.
func (o *Pruner) OldestSettledAge(ctx context.Context) (time.Duration, error) {
	row, err := o.db.Source(ctx)
	if err != nil {
		return 0, err
	}
	oldest, err := readOldestSettled(ctx, o.db, row)
	if err != nil || !oldest.known() {
		return 0, err
	}
	return pg.Microseconds(oldest.age), nil
}

func readOldestSettled(ctx context.Context, db pg.Runner, row pg.Source) (oldestSettled, error) {
	return pg.Glance(ctx, db, row, holdingTimeout, func(ctx context.Context, tx pgx.Tx) (o oldestSettled, err error) {
		err = tx.QueryRow(ctx, fmt.Sprintf(`
SELECT coalesce(min(published_at), '0001-01-01 00:00:00+00'), coalesce(greatest(0, extract(epoch FROM now() - min(published_at)) * 1000000)::bigint, 0)
FROM (SELECT published_at FROM %s ORDER BY id LIMIT $1) lowest WHERE isfinite(published_at)`, row.Table.SQL()), int64(holdingRows)).Scan(&o.at, &o.age)
		return o, err
	})
}

// weigh decides between the rows that were counted, if they were, and the statistics.
func (h *Holding) weigh(counted int64, known bool) {
	switch {
	case known && counted <= rowsCounted:
		h.Rows, h.RowsFrom = counted, RowsCounted
	case known && h.Rows <= rowsCounted:
		h.Rows, h.RowsFrom = rowsCounted, RowsAtLeast
	case h.Rows > 0:
		h.RowsFrom = RowsEstimated
	default:
		h.RowsFrom = RowsUnknown
	}
}

type oldestSettled struct {
	at  time.Time
	age int64
}

func (o oldestSettled) known() bool { return o.at.Year() > 1 }

// readSize reads the catalog and outbox.retention. A role or a schema of an older time does without the latter.
func readSize(ctx context.Context, tx pgx.Tx, row pg.Source) (Holding, error) {
	var h Holding
	var readable bool
	err := tx.QueryRow(ctx, `
WITH parts AS (SELECT $1::text::regclass::oid AS oid UNION SELECT relid::oid FROM pg_partition_tree($1::text::regclass))
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint, coalesce(sum(coalesce(nullif(pg_stat_get_live_tuples(oid), 0), CASE WHEN pg_stat_get_tuples_deleted(oid) = 0 THEN greatest(reltuples, 0) ELSE 0 END)) FILTER (WHERE relkind <> 'p'), 0)::bigint, bool_or(relkind = 'p'),
    (SELECT coalesce(has_table_privilege(to_regclass('outbox.retention'), 'SELECT'), false))
FROM parts JOIN pg_class USING (oid)`, row.Table.SQL()).Scan(&h.Bytes, &h.Rows, &h.Partitioned, &readable)
	if err != nil || !readable {
		return h, err
	}
	var older, dead, audit int64
	var at *time.Time
	err = tx.QueryRow(ctx, `
SELECT expires_at > clock_timestamp() AND (older_than IS NOT NULL), name, coalesce(extract(epoch FROM older_than) * 1000000, 0)::bigint, keep, pruned, pruned_at,
    CASE WHEN expires_at > clock_timestamp() THEN coalesce(extract(epoch FROM dead_older_than) * 1000000, 0) ELSE 0 END::bigint,
    CASE WHEN expires_at > clock_timestamp() THEN coalesce(extract(epoch FROM audit_older_than) * 1000000, 0) ELSE 0 END::bigint
FROM outbox.retention WHERE source = $1`, row.ID).Scan(&h.Retained, &h.By, &older, &h.Keep, &h.Pruned, &at, &dead, &audit)
	if errors.Is(err, pgx.ErrNoRows) {
		return h, nil
	}
	h.OlderThan, h.DeadOlderThan, h.AuditOlderThan = pg.Microseconds(older), pg.Microseconds(dead), pg.Microseconds(audit)
	if at != nil {
		h.PrunedAt = *at
	}
	return h, err
}
