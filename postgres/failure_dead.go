package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/relay"
)

// Bury implements [relay.Attempts].
func (f *failures) Bury(ctx context.Context, claim relay.Claim, d relay.DeadEvent) (buried bool, err error) {
	err = inTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, buryingSettings); err != nil {
			return fmt.Errorf("set the transaction up: %w", err)
		}
		if err := holdLane(ctx, tx, f.row.id, claim, relay.Lane(d.PartitionKey, f.row.lanes)); err != nil {
			return err
		}
		buried, err = f.moveToDead(ctx, tx, d)
		return err
	})
	if code(err) == "55P03" {
		err = relay.ErrLocked
	}
	if refusesForGood(err) {
		err = &relay.RefusedError{Err: f.explainBury(err)}
	}
	if err != nil {
		return false, fmt.Errorf("move an event of topic %s of %s to outbox.dead_event: %w", d.Topic, f.row.table, err)
	}
	return buried, nil
}

// errStays is of a row that is not deleted and still there: a trigger or row-level security.
var errStays = errors.New("the table keeps the row: a trigger, or row-level security, lets no DELETE through")

// moveToDead moves one event. It returns false when the event is not unpublished any more. The caller has the lane.
func (f *failures) moveToDead(ctx context.Context, tx pgx.Tx, d relay.DeadEvent) (buried bool, err error) {
	only := []death{{key: d.Key, ref: d.Event, code: d.Code, reason: d.Reason, by: d.By, attempts: 1, letter: d.Letter}}
	for range buryTries {
		became, err := bury(ctx, tx, f.row, only)
		if err != nil || became[0].moved {
			return err == nil, err
		}
		// Whoever has the row locked is waited for, for a moment.
		var one int
		err = tx.QueryRow(ctx, fmt.Sprintf(`SELECT 1 FROM %s WHERE id = $1 AND event_id = $2 AND published_at IS NULL FOR UPDATE`, f.row.table.sql()),
			d.Event.ID, d.Event.EventID).Scan(&one)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look at the row: %w", err)
		}
	}
	return false, errStays
}

// buryingSettings keep a locked row from holding up the lane, whose lease is renewed meanwhile.
const buryingSettings = plainPlan + `, set_config('lock_timeout', '250ms', true)`

// buryTries is more than one: the row may have been locked the first time.
const buryTries = 2

// refusesForGood tells that moving this event meets the same answer again, also from a trigger that raises.
func refusesForGood(err error) bool {
	return errors.Is(err, errStays) || isRefusal(err) || strings.HasPrefix(code(err), "P0")
}

// explainBury names the rights that are missing, if that is what it is.
func (f *failures) explainBury(err error) error {
	if code(err) != "42501" {
		return err
	}
	return fmt.Errorf("%w; to move events, the relay needs: GRANT DELETE ON TABLE %s and GRANT INSERT, UPDATE ON TABLE outbox.dead_event, to the relay's role", err, f.row.table.sql())
}
