package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// unpublishedSQL asks which rows of a settle are still there and unpublished.
const unpublishedSQL = `SELECT t.id, t.event_id FROM %s t WHERE ` + rowsToSettle

const (
	// maxCulprits bounds the search for single rows: where there are more, the table refuses more or less everything, and what is refused together
	// after that counts as refused.
	maxCulprits = 256
	// maxReasons bounds how many different reasons are told.
	maxReasons = 3
)

// unsettled collects the rows of one call that cannot be settled, and why.
type unsettled struct {
	refs    []relay.Ref
	reasons []error
}

func (u *unsettled) add(refs []relay.Ref, reason error) {
	u.refs = append(u.refs, refs...)
	if len(u.reasons) == maxReasons {
		return
	}
	for _, r := range u.reasons {
		if r.Error() == reason.Error() {
			return
		}
	}
	u.reasons = append(u.reasons, reason)
}

func (u *unsettled) err() error {
	if len(u.refs) == 0 {
		return nil
	}
	return &relay.UnsettledError{Refs: u.refs, Err: errors.Join(u.reasons...)}
}

// settleParts settles what can be settled. When the table refuses rows it tries each half: one bad row must not keep the others from being settled.
func (s *settler) settleParts(ctx context.Context, refs []relay.Ref, u *unsettled) (int, error) {
	n, err := s.settleWhole(ctx, refs)
	switch {
	case err == nil && n == len(refs):
		return n, nil
	case err == nil:
		return n, s.findUnsettled(ctx, refs, u)
	case !isRowsFault(err):
		return 0, err
	case len(refs) == 1 || len(u.refs) >= maxCulprits:
		u.add(refs, err)
		return 0, nil
	}
	half := len(refs) / 2
	first, err := s.settleParts(ctx, refs[:half], u)
	if err != nil {
		return 0, err
	}
	second, err := s.settleParts(ctx, refs[half:], u)
	return first + second, err
}

// isRowsFault tells that a constraint, a trigger or a type of the table has refused a row: data exceptions, integrity violations, and what functions raise.
func isRowsFault(err error) bool {
	c := pg.Code(err)
	return len(c) == 5 && strings.Contains("22 23 P0", c[:2])
}

// findUnsettled asks what became of the rows that a settle did not find. Those that are gone or published somebody else has settled; the rest the table
// keeps as they are, without an error.
func (s *settler) findUnsettled(ctx context.Context, refs []relay.Ref, u *unsettled) error {
	ids, eventIDs := columnsOf(refs)
	var found []relay.Ref
	err := pg.InTx(ctx, s.db, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, plainPlan); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, fmt.Sprintf(unpublishedSQL, s.row.Table.SQL()), ids, eventIDs)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[relay.Ref])
		return err
	})
	if err != nil {
		return fmt.Errorf("ask what is still unpublished: %w", err)
	}
	if len(found) > 0 {
		u.add(found, fmt.Errorf("the %s leaves the row as it is: row-level security without a policy for it, or a trigger that returns NULL", s.statement))
	}
	return nil
}
