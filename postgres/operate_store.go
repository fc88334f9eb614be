package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres/retention"
)

// Store is the operators' service's side of a source: it implements [operate.Store] by statements over the given pool, and holds nothing
// open between calls.
type Store struct {
	*Operator
	*retention.Pruner
	db      pg.Access
	windows windows
	now     func() time.Time
}

// The embedded operator has methods of the same names, which return what they know to a relay's own programs.
var _ operate.Lookups = (*Store)(nil)

// NewStore returns the store of the table in cfg, as [NewOperator] does. It connects to nothing yet.
func NewStore(pool *pgxpool.Pool, cfg Config) (*Store, error) {
	o, err := NewOperator(pool, cfg)
	if err != nil {
		return nil, err
	}
	p, err := retention.NewPruner(pool, cfg.Table)
	if err != nil {
		return nil, err
	}
	p.Logger = o.log
	return &Store{Operator: o, Pruner: p, db: o.db, windows: defaultWindows, now: time.Now}, nil
}

// lookSettingsSQL is what every look sets for its transaction. Bitmap scans would fetch a whole backlog for each page where the statistics are old, and a
// plan made for any parameters, or for several processes, is one that nobody has tested. A scan of the outbox table is never right.
const lookSettingsSQL = `SELECT set_config('statement_timeout', $1, true), set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true),
    set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true), set_config('max_parallel_workers_per_gather', '0', true)`

// survey is one look: a snapshot, the source's row, and which columns the table has.
type survey struct {
	tx      pgx.Tx
	row     pg.Source
	columns []string
	windows windows
}

// has tells whether the table has a column: those of an aggregate are not needed for publishing.
func (l survey) has(column string) bool { return slices.Contains(l.columns, column) }

// see runs fn in one read-only snapshot with a time limit that the server keeps. what is for people.
func see[T any](ctx context.Context, s *Store, limit time.Duration, what string, fn func(context.Context, survey) (T, error)) (T, error) {
	var found, none T
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pg.WithTx(ctx, s.db, opts, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lookSettingsSQL, strconv.FormatInt(max(1, limit.Milliseconds()), 10)); err != nil {
			return err
		}
		l := survey{tx: tx, windows: s.windows}
		var err error
		if l.row, err = pg.ReadSource(ctx, tx, s.db.Table); err != nil {
			return err
		}
		if l.columns, err = pg.ReadColumns(ctx, tx, s.db.Table); err != nil {
			return err
		}
		found, err = fn(ctx, l)
		return err
	})
	if err != nil {
		return none, s.refusal(ctx, err, what, limit)
	}
	return found, nil
}

// refusal gives an error its code. What the operator has to mend in the configuration stays recognisable below it.
func (s *Store) refusal(ctx context.Context, err error, what string, limit time.Duration) error {
	var refused *operate.Error
	switch {
	case pg.Code(err) == "42501":
		return pg.LacksRight(s.db.Pool, s.db.Table, fmt.Sprintf("%s of %s", what, s.db.Table), err, "--operator")
	case errors.As(err, &refused):
		return err
	case pg.Code(err) == "57014" && ctx.Err() == nil, errors.Is(err, context.DeadlineExceeded):
		return &operate.Error{Code: operate.CodeTooSlow, Text: fmt.Sprintf(
			"%s of %s: the database did not answer within %s; narrow it by --min-id and --max-id, or name the events; outbox status tells whether the index for what is unpublished is missing",
			what, s.db.Table, limit)}
	case pg.Code(err) == "22P05" || pg.Code(err) == "22021":
		return &operate.Error{Code: operate.CodeInvalid, Text: fmt.Sprintf("%s of %s: no event has such a text: the database's encoding has no place for it", what, s.db.Table), Err: err}
	case pg.Code(err) == "42P01" || pg.Code(err) == "42703":
		return &operate.Error{Code: operate.CodeUnavailable, Text: fmt.Sprintf(
			"%s of %s: the schema outbox is older than this program; run: outbox migrate up", what, s.db.Table), Err: err}
	}
	return &operate.Error{Code: operate.CodeUnavailable, Text: fmt.Sprintf("%s of %s", what, s.db.Table), Err: pg.Mark(err)}
}

// query is a statement that is being written, with its parameters. Each is cast where it stands: no mode of the driver has to guess.
type query struct{ args []any }

func (q *query) param(v any, typ string) string {
	if id, ok := v.(uuid.UUID); ok {
		v = id.String()
		typ = "text::uuid"
	}
	q.args = append(q.args, v)
	return "$" + strconv.Itoa(len(q.args)) + "::" + typ
}

// shownTime is the expression for a time, or NULL where no clock shows it: infinity, and years that JSON has no form for.
func shownTime(expression string) string {
	return fmt.Sprintf("CASE WHEN %[1]s >= '0001-01-02 00:00:00+00' AND %[1]s < '9999-12-31 00:00:00+00' THEN %[1]s END", expression)
}

func timeOrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
