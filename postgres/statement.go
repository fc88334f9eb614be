package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// statement is a statement that is planned each time it runs, with its parameters in sight. Nothing is prepared: so a pooler may give
// each run another connection, a column added to the table breaks no cached plan, and no generic plan ever turns a look at three
// ids into a scan of the table. Planning costs some tenths of a millisecond.
type statement struct {
	text strings.Builder
	args []any
	oids []uint32
}

// param adds a parameter and returns its name in the text.
func (s *statement) param(oid uint32, value any) string {
	s.args = append(s.args, value)
	s.oids = append(s.oids, oid)
	return "$" + strconv.Itoa(len(s.args))
}

func (s *statement) bigint(v int64) string { return s.param(pgtype.Int8OID, v) }

// plannerSQL goes ahead of every statement behind a pooler, in the same round trip and in the transaction that it shares with it. After a sudden
// backlog the statistics still say that next to nothing is unpublished; a bitmap scan would then fetch and sort the whole backlog for each
// page. Compiling a plan costs more than any of these statements takes.
const plannerSQL = "SELECT set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)"

// ownPlannerSQL is the same for a session that is nobody else's: once for all its statements, since each counts while the relay is idle.
const ownPlannerSQL = "SELECT set_config('enable_bitmapscan', 'off', false), set_config('jit', 'off', false)"

// planned is where a connection notes that ownPlannerSQL was run.
const planned = "outbox planner settings"

// plan makes the settings of a session that no pooler shares.
func plan(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, ownPlannerSQL); err != nil {
		return fmt.Errorf("set the planner's settings: %w", err)
	}
	conn.PgConn().CustomData()[planned] = true
	return nil
}

// run calls each for every row; the values are in PostgreSQL's binary form, and valid until each returns.
func (s *statement) run(ctx context.Context, conn *pgx.Conn, each func(row [][]byte) error) (err error) {
	values, formats := make([][]byte, len(s.args)), make([]int16, len(s.args))
	for i, arg := range s.args {
		formats[i] = pgtype.BinaryFormatCode
		values[i], err = conn.TypeMap().Encode(s.oids[i], pgtype.BinaryFormatCode, arg, nil)
		if err != nil {
			return fmt.Errorf("encode parameter %d: %w", i+1, err)
		}
	}
	batch := &pgconn.Batch{}
	ahead := 0
	if conn.PgConn().CustomData()[planned] == nil {
		batch.ExecParams(plannerSQL, nil, nil, nil, nil)
		ahead = 1
	}
	batch.ExecParams(s.text.String(), values, s.oids, formats, []int16{pgtype.BinaryFormatCode})
	results := conn.PgConn().ExecBatch(ctx, batch)
	for statement := 0; results.NextResult(); statement++ {
		for rows := results.ResultReader(); rows.NextRow(); {
			if statement < ahead || err != nil {
				continue
			}
			err = each(rows.Values())
		}
	}
	return firstError(results.Close(), err)
}

// int64Of reads a bigint or a timestamptz; 0 for NULL.
func int64Of(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}
