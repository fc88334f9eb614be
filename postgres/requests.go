package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/relay"
)

// The verbs of a request.
const (
	// VerbUnpark lets a parked key go on, beginning with the event that stopped it.
	VerbUnpark = "unpark"
	// VerbSkip gives up the event that stops a parked key: it is moved to outbox.dead_event whole, and the key goes on behind it.
	VerbSkip = "skip"
)

// requestsAtOnce bounds what one call carries out, so that publishing goes on beside a long list.
const requestsAtOnce = 100

// request is an open row of outbox.request.
type request struct {
	id          int64
	verb        string
	key         relay.Key
	requestedBy string
	reason      string
}

// Requests implements [relay.Failures]. A request whose key is not ready, or is not in the claim, is left for later. One that the
// server refuses, or whose verb is unknown, is closed with its error for the operator to read; it is no error of the call.
func (f *failures) Requests(ctx context.Context, claim relay.Claim, ready func(relay.Key) bool) ([]relay.Key, error) {
	open, err := f.openRequests(ctx, claim.Lanes)
	if err != nil {
		return nil, fmt.Errorf("read the requests for %s: %w", f.row.table, err)
	}
	var released []relay.Key
	for _, r := range open {
		if !ready(r.key) {
			continue
		}
		goesOn, err := f.carryOut(ctx, claim, r)
		if err != nil {
			return released, fmt.Errorf("carry out request %d for %s: %w", r.id, f.row.table, err)
		}
		if goesOn {
			released = append(released, r.key)
		}
	}
	return released, nil
}

// openRequests relies on the index request_open, which holds only open ones.
func (f *failures) openRequests(ctx context.Context, lanes []int32) ([]request, error) {
	var open []request
	err := f.db.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `
SELECT id, verb, topic, partition_key, requested_by, reason FROM outbox.request
WHERE source = $1 AND done_at IS NULL AND `+f.row.lane("partition_key", "$2::integer")+` = ANY ($3::integer[])
ORDER BY id LIMIT $4`, f.row.id, f.row.lanes, lanes, requestsAtOnce)
		if err != nil {
			return err
		}
		open, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r request, err error) {
			err = row.Scan(&r.id, &r.verb, &r.key.Topic, &r.key.PartitionKey, &r.requestedBy, &r.reason)
			return r, err
		})
		return err
	})
	return open, err
}

// carryOut does one request in one transaction, with its lane locked, and closes it. It tells whether the key goes on.
func (f *failures) carryOut(ctx context.Context, claim relay.Claim, r request) (goesOn bool, err error) {
	err = inTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) error {
		if err := holdLane(ctx, tx, f.row.id, claim, relay.Lane(r.key.PartitionKey, f.row.lanes)); err != nil {
			return err
		}
		goesOn, err = f.decide(ctx, tx, r)
		return err
	})
	return goesOn && err == nil, err
}

// decide does the request unless somebody has, and closes it. The transaction keeps everybody out who could have the key in flight.
func (f *failures) decide(ctx context.Context, tx pgx.Tx, r request) (goesOn bool, err error) {
	if open, err := lockRequest(ctx, tx, r.id); err != nil || !open {
		return false, err
	}
	outcome, err := f.attempt(ctx, tx, r)
	var refused *refusal
	if errors.As(err, &refused) {
		return false, closeRequest(ctx, tx, r.id, "refused", refused.Error())
	}
	if err != nil {
		return false, err
	}
	return true, closeRequest(ctx, tx, r.id, outcome, "")
}

// requestsWithoutLanes carries out the open requests while relays compete for rows. Nobody leases the lanes then, and the mode lock keeps it so until the
// transaction ends. Competing relays leave parked keys out; where another kind of relay has the event in flight, skipping waits for its row.
func (f *failures) requestsWithoutLanes(ctx context.Context) error {
	all := make([]int32, f.row.lanes)
	for i := range all {
		all[i] = int32(i)
	}
	open, err := f.openRequests(ctx, all)
	if err != nil {
		return fmt.Errorf("read the requests for %s: %w", f.row.table, err)
	}
	for _, r := range open {
		err := inTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) error {
			if err := refuseIfLeased(ctx, tx, f.row.id); err != nil {
				return err
			}
			_, err := f.decide(ctx, tx, r)
			return err
		})
		if errors.Is(err, errLeased) {
			// A relay that leases lanes has come in between, and will do it.
			return nil
		}
		if err != nil {
			return fmt.Errorf("carry out request %d for %s: %w", r.id, f.row.table, err)
		}
	}
	return nil
}

// lockRequest tells whether the request is still open: whoever held the lane before may have done it.
func lockRequest(ctx context.Context, tx pgx.Tx, id int64) (open bool, err error) {
	err = tx.QueryRow(ctx, `SELECT done_at IS NULL FROM outbox.request WHERE id = $1 FOR UPDATE`, id).Scan(&open)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return open, err
}

func closeRequest(ctx context.Context, tx pgx.Tx, id int64, outcome, problem string) error {
	_, err := tx.Exec(ctx, `
UPDATE outbox.request SET done_at = clock_timestamp(), outcome = $2, error = nullif($3, '') WHERE id = $1`,
		id, outcome, storable(problem))
	if err != nil {
		return fmt.Errorf("close the request: %w", err)
	}
	return nil
}

// refusal is an answer for the operator: the request cannot be done as it is, now or later.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// attempt does the verb under a savepoint, so that what the server refuses leaves the transaction able to say so.
func (f *failures) attempt(ctx context.Context, tx pgx.Tx, r request) (outcome string, err error) {
	point, err := tx.Begin(ctx)
	if err != nil {
		return "", err
	}
	switch r.verb {
	case VerbUnpark:
		outcome = "unparked"
		_, err = f.release(ctx, point, r.key)
	case VerbSkip:
		outcome, err = f.skip(ctx, point, r)
	default:
		err = &refusal{fmt.Sprintf("the verb %q is unknown to this relay: it knows unpark and skip; a newer relay may know it", r.verb)}
	}
	if err == nil {
		return outcome, point.Commit(ctx)
	}
	if rerr := point.Rollback(ctx); rerr != nil {
		return "", errors.Join(err, rerr)
	}
	if isRefusal(err) {
		err = &refusal{f.explain(r, err)}
	}
	return "", err
}

// explain names the right that is missing, if that is what it is.
func (f *failures) explain(r request, err error) string {
	if code(err) == "42501" && r.verb == VerbSkip {
		return fmt.Sprintf("%v; to skip, the relay needs: GRANT DELETE ON TABLE %s and GRANT INSERT, UPDATE ON TABLE outbox.dead_event, "+
			"to the relay's role", err, f.row.table.sql())
	}
	return err.Error()
}

// skip moves the event that stops the key to outbox.dead_event, whole: to_jsonb keeps columns that this program does not know.
func (f *failures) skip(ctx context.Context, tx pgx.Tx, r request) (string, error) {
	culprit, err := f.release(ctx, tx, r.key)
	if err != nil {
		return "", err
	}
	tag, err := tx.Exec(ctx, fmt.Sprintf(`
WITH gone AS (
    DELETE FROM %s t WHERE t.id = $2 AND t.event_id = $3 AND t.published_at IS NULL
    RETURNING t.id, t.event_id, t.topic, t.partition_key, to_jsonb(t) AS event
)
INSERT INTO outbox.dead_event (source, id, event_id, topic, partition_key, lane, event, code, reason, died_by)
SELECT $1, id, event_id, topic, partition_key, $4, event, $5, $6, $7 FROM gone
ON CONFLICT (source, id, event_id) DO UPDATE SET
    event = excluded.event, code = excluded.code, reason = excluded.reason, died_by = excluded.died_by, died_at = clock_timestamp()`,
		f.row.table.sql()), f.row.id, culprit.Event.ID, culprit.Event.EventID, relay.Lane(r.key.PartitionKey, f.row.lanes),
		culprit.Code, deathReason(culprit, r), storable(r.requestedBy))
	if err != nil {
		return "", fmt.Errorf("move the event to outbox.dead_event: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return "unparked: the event that stopped the key is not waiting in the table any more", nil
	}
	return fmt.Sprintf("skipped: event %s (id %d) is in outbox.dead_event", culprit.Event.EventID, culprit.Event.ID), nil
}

// release takes the key out of parked_key and returns what stopped it.
func (f *failures) release(ctx context.Context, tx pgx.Tx, key relay.Key) (relay.ParkedKey, error) {
	rows, err := tx.Query(ctx, `
DELETE FROM outbox.parked_key WHERE source = $1 AND key_hash = $2
RETURNING topic, partition_key, id, event_id, event_type, code, reason, parked_at`, f.row.id, keyHash(key))
	if err != nil {
		return relay.ParkedKey{}, fmt.Errorf("unpark the key: %w", err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, scanParked)
	if errors.Is(err, pgx.ErrNoRows) {
		return relay.ParkedKey{}, &refusal{"the key is not parked"}
	}
	if err != nil {
		return relay.ParkedKey{}, fmt.Errorf("unpark the key: %w", err)
	}
	return p, nil
}

func deathReason(p relay.ParkedKey, r request) string {
	if r.reason == "" {
		return p.Reason
	}
	return storable(p.Reason + "; skipped: " + r.reason)
}
