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
		if err := holdLane(ctx, tx, f.row.id, claim, relay.Lane(d.PartitionKey, f.row.lanes)); err != nil {
			return err
		}
		buried, err = f.moveToDead(ctx, tx, d)
		return err
	})
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

// moveToDead moves an event to outbox.dead_event, whole, in one statement: to_jsonb keeps columns that this program does not know. The record of its attempts goes with it, counted with
// the last one. It returns false when the event is not unpublished any more. The caller has the lane.
func (f *failures) moveToDead(ctx context.Context, tx pgx.Tx, d relay.DeadEvent) (buried bool, err error) {
	tag, err := tx.Exec(ctx, fmt.Sprintf(`
WITH gone AS (
    DELETE FROM %s t WHERE t.id = $2 AND t.event_id = $3 AND t.published_at IS NULL
    RETURNING t.id, t.event_id, t.topic, t.partition_key, to_jsonb(t) AS event
), failed AS (
    DELETE FROM outbox.failure f USING gone WHERE f.source = $1 AND f.id = gone.id AND f.event_id = gone.event_id
    RETURNING f.attempts - f.crashes AS attempts
)
INSERT INTO outbox.dead_event (source, id, event_id, topic, partition_key, lane, event, code, reason, attempts, died_by)
SELECT $1, id, event_id, topic, partition_key, $4, event, $5, $6, coalesce((SELECT attempts FROM failed), 0) + 1, $7 FROM gone
ON CONFLICT (source, id, event_id) DO UPDATE SET
    event = excluded.event, code = excluded.code, reason = excluded.reason, attempts = excluded.attempts, died_by = excluded.died_by,
    died_at = clock_timestamp()`, f.row.table.sql()),
		f.row.id, d.Event.ID, d.Event.EventID, relay.Lane(d.PartitionKey, f.row.lanes), d.Code, f.row.storable(d.Reason), f.row.storable(d.By))
	if err != nil || tag.RowsAffected() > 0 {
		return err == nil, err
	}
	var stays bool
	err = tx.QueryRow(ctx, fmt.Sprintf(`SELECT EXISTS (SELECT FROM %s WHERE id = $1 AND event_id = $2 AND published_at IS NULL)`, f.row.table.sql()),
		d.Event.ID, d.Event.EventID).Scan(&stays)
	if err == nil && stays {
		err = errStays
	}
	return false, err
}

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
