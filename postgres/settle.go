package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// settler writes down that events are in Kafka. It looks at no lease: an event that was acknowledged is in Kafka, whoever sent it.
type settler struct {
	db  pg.Runner
	row pg.Source
	sql string
	// statement is its name, for people.
	statement string
	// begun tells that the source's first publication is written down.
	begun bool
	noted noted
}

// plainPlan holds the planner to one index lookup for each row. Without it a plan made while the table was small, or before its first
// ANALYZE, reads the whole table at each settle, and is kept. It lasts as long as the transaction, so a pooler does not mind.
//
// It is not enough for a join with rows that are unpublished: as a rule nothing is when the table is analyzed, so the planner expects one such row
// however many there are, begins the join with it, and goes through all that is wanted for each. A statement that names unpublished rows must leave
// the planner no choice: id = ANY of an array, or LATERAL with something that keeps the subquery as it is.
const plainPlan = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true)`

// The event is compared, and not the id alone: an id may be issued again after a crash or a RESTART. That both are of the same pair need not be
// asked: an event that was acknowledged is in Kafka, under whatever id. IS TRUE keeps the planner from looking up by event_id: random ones are
// spread over an index that fits in no cache, ids are next to each other.
const (
	rowsToSettle = `t.id = ANY ($1::bigint[]) AND (t.event_id = ANY ($2::uuid[])) IS TRUE AND t.published_at IS NULL`
	markSQL      = `UPDATE %s t SET published_at = now() WHERE ` + rowsToSettle
	deleteSQL    = `DELETE FROM %s t WHERE ` + rowsToSettle
	beginSQL     = `UPDATE outbox.source SET first_published_at = now() WHERE id = $1 AND first_published_at IS NULL`
)

func newSettler(db pg.Runner, row pg.Source, mode SettleMode) *settler {
	sql, statement := markSQL, "UPDATE"
	if mode == Delete {
		sql, statement = deleteSQL, "DELETE"
	}
	return &settler{db: db, row: row, sql: fmt.Sprintf(sql, row.Table.SQL()), statement: statement, begun: !row.FirstPublished.IsZero(), noted: noted{now: time.Now}}
}

// settleTries is how often a settle that lost against another transaction is tried; a settle given up is a batch sent twice.
const settleTries = 5

// Settle implements [relay.Settler]. A call is one round trip and one transaction, whatever the number of rows, unless some of them cannot be settled.
func (s *settler) Settle(ctx context.Context, refs []relay.Ref) (int, error) {
	if len(refs) == 0 {
		return 0, nil
	}
	var left unsettled
	settled, err := s.settleParts(ctx, inOrder(refs), &left)
	if err != nil {
		return 0, fmt.Errorf("settle %d events of %s: %w", len(refs), s.row.Table, err)
	}
	if settled > 0 {
		s.note(ctx)
	}
	return settled, left.err()
}

// settleWhole settles all of the refs or none.
func (s *settler) settleWhole(ctx context.Context, refs []relay.Ref) (settled int, err error) {
	ids, eventIDs := arrays(refs)
	for range settleTries {
		settled, err = s.settle(ctx, ids, eventIDs)
		if !pg.IsConflict(err) {
			break
		}
	}
	return settled, withoutValues(err)
}

// inOrder returns the refs sorted by id: everybody who locks many rows of the table goes by id, so that nobody waits in a circle.
func inOrder(refs []relay.Ref) []relay.Ref {
	byID := func(a, b relay.Ref) int { return cmp.Compare(a.ID, b.ID) }
	if slices.IsSortedFunc(refs, byID) {
		return refs
	}
	refs = slices.Clone(refs)
	slices.SortFunc(refs, byID)
	return refs
}

// arrays returns the ids and the event ids as bigint[] and uuid[] in PostgreSQL's binary form. The driver would write and the server read them
// as text, which costs a tenth of the relay's time.
func arrays(refs []relay.Ref) (ids, eventIDs []byte) {
	const header, length = 20, 4
	ids = appendArray(make([]byte, 0, header+len(refs)*(length+8)), pgtype.Int8OID, len(refs))
	eventIDs = appendArray(make([]byte, 0, header+len(refs)*(length+16)), pgtype.UUIDOID, len(refs))
	for _, r := range refs {
		ids = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(ids, 8), uint64(r.ID))
		eventIDs = append(binary.BigEndian.AppendUint32(eventIDs, 16), r.EventID[:]...)
	}
	return ids, eventIDs
}

// appendArray begins an array of n elements, none of them NULL: dimensions, flags, type, length, lower bound.
func appendArray(dst []byte, oid uint32, n int) []byte {
	for _, word := range []uint32{1, 0, oid, uint32(n), 1} {
		dst = binary.BigEndian.AppendUint32(dst, word)
	}
	return dst
}

// settle runs the statements of one settle in one round trip, which is one transaction.
func (s *settler) settle(ctx context.Context, ids, eventIDs []byte) (settled int, err error) {
	binaryForm := []int16{pgtype.BinaryFormatCode, pgtype.BinaryFormatCode}
	batch := &pgconn.Batch{}
	batch.ExecParams(plainPlan, nil, nil, nil, nil)
	batch.ExecParams(s.sql, [][]byte{ids, eventIDs}, []uint32{pgtype.Int8ArrayOID, pgtype.UUIDArrayOID}, binaryForm, nil)
	if !s.begun {
		batch.ExecParams(beginSQL, [][]byte{s.row.ID[:]}, []uint32{pgtype.UUIDOID}, binaryForm[:1], nil)
	}
	err = s.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		results := conn.PgConn().ExecBatch(ctx, batch)
		for statement := 0; results.NextResult(); statement++ {
			tag, err := results.ResultReader().Close()
			if err != nil {
				return firstError(err, results.Close())
			}
			if statement == 1 {
				settled = int(tag.RowsAffected())
			}
		}
		return results.Close()
	})
	if err != nil {
		return 0, err
	}
	s.begun = true
	return settled, nil
}

// firstError returns the first that is not nil: closing a batch reports what its unread part met, and only then has it committed.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
