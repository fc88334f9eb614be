package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox/internal/pg"
)

// Asking costs the server a look through its lock table, so it is done at most once in minAskEvery, and in no more than one part
// in askShare of the time.
const (
	minAskEvery = 20 * time.Millisecond
	askShare    = 20
)

// lockAsker asks pg_locks who is writing to the outbox table.
//
// An INSERT takes RowExclusiveLock before it draws its id, and gives it back after its commit has become visible. So a hole that was
// seen before the question can only be filled by a transaction that the answer names. No other mode counts: VACUUM and CREATE INDEX
// would hold holes open.
type lockAsker struct {
	db    pg.Runner
	table string
	// own are the process ids of the source's own connections, whose locks do not count; empty behind a pooler.
	own []int32
	now func() time.Time
	// every is the shortest time between two questions.
	every time.Duration

	last  time.Time
	took  time.Duration
	asked int
}

// due tells whether it is time to ask again.
func (a *lockAsker) due() bool {
	return a.last.IsZero() || a.now().Sub(a.last) >= max(a.every, askShare*a.took)
}

// The lock on a partition counts as well: a writer may name one. A prepared transaction has no pid. A transaction's subtransactions
// have xids too, and none of those is in a snapshot: the oldest is the top-level one.
const holdersSQL = `SELECT NULL::text, 0::bigint, pg_postmaster_start_time()
UNION ALL
(SELECT virtualtransaction,
    coalesce((array_agg(transactionid::text::bigint ORDER BY age(transactionid) DESC)
        FILTER (WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted))[1], 0), NULL
FROM pg_locks
GROUP BY virtualtransaction
HAVING bool_or(locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (relation = $1::text::regclass
        OR relation = ANY (ARRAY(SELECT relid::oid FROM pg_partition_tree($1::text::regclass))))
    AND (pid IS NULL OR pid <> ALL ($2::int4[]))))`

// ask returns the transactions that write to the table now, and the start of the server that said so.
func (a *lockAsker) ask(ctx context.Context) (holders, time.Time, error) {
	began := a.now()
	found, start, err := a.query(ctx)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("ask pg_locks for the writers of %s: %w", a.table, err)
	}
	a.last = a.now()
	a.took = a.last.Sub(began)
	a.asked++
	return found, start, nil
}

func (a *lockAsker) query(ctx context.Context) (found holders, start time.Time, err error) {
	q := &statement{}
	q.text.WriteString(holdersSQL)
	q.param(pgtype.TextOID, a.table)
	q.param(pgtype.Int4ArrayOID, append([]int32{}, a.own...))
	found = holders{}
	err = a.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return q.run(ctx, conn, func(row [][]byte) error {
			if row[0] == nil {
				start = timeOf(row[2])
				return nil
			}
			found[string(row[0])] = uint32(int64Of(row[1]))
			return nil
		})
	})
	return found, start, err
}
