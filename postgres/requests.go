package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// The verbs of a request.
const (
	// VerbUnpark lets a parked key go on, beginning with the event that stopped it.
	VerbUnpark = "unpark"
	// VerbRetry tries an event at once that stops its key or waits for its next attempt; of a key it is VerbUnpark.
	VerbRetry = "retry"
	// VerbSkip gives an unpublished event up because nobody wants it, VerbDead because it cannot be published: it is moved to outbox.dead_event whole, with the code
	// SKIPPED or DEAD. Of a key it is the event that stops it. A key that was stopped by the event goes on behind it.
	VerbSkip = "skip"
	VerbDead = "dead"
	// VerbRestore puts a dead event back under its id, so that it goes out in its place before all that is unpublished of its key and newer.
	VerbRestore = "restore"
)

// The outcomes, in outbox.request, of requests that changed nothing; the error there says why. Every other outcome is a sentence for people.
const (
	// OutcomeRefused: it cannot be done as it is, now or later.
	OutcomeRefused = "refused"
	// OutcomeAlready: there is nothing to do, as somebody has done it before.
	OutcomeAlready = "already done"
	// OutcomeNotFound: there is no such event, or the key is not parked.
	OutcomeNotFound = "not found"
	// OutcomeCancelled: its job was cancelled, or nobody runs it any more.
	OutcomeCancelled = "cancelled"
	// OutcomeWithdrawn: whoever asked has taken it back before it was carried out.
	OutcomeWithdrawn = "withdrawn"
)

// request is an open row of outbox.request.
type request struct {
	id   int64
	verb string
	key  relay.Key
	// event is nil when the request is about the key.
	event       *relay.Ref
	requestedBy string
	reason      string
}

// requests carries out what operators ask for, batch after batch.
type requests struct {
	db  pg.Runner
	row pg.Source
	now func() time.Time
	// after is the last request that was looked at in this round; what was left is looked at again in the next one.
	after int64
	// left are the keys of which a request was left open in this round.
	left map[relay.Key]struct{}
	// claim is that of the last batch.
	claim relay.Claim
	// size is how many requests the next batch takes.
	size pace
}

func newRequests(db pg.Runner, row pg.Source) *requests {
	return &requests{db: db, row: row, now: time.Now, size: firstBatch}
}

// Requests carries out one batch, as [relay.Failures] says. One that the server refuses, or whose verb is unknown, is closed with its error for the operator to read; it
// is no error of the call.
func (q *requests) Requests(ctx context.Context, claim relay.Claim, ready func([]relay.Key) []relay.Key) (relay.Carried, error) {
	q.begin(claim)
	return q.next(ctx, claim.Lanes, ready, func(ctx context.Context, tx pgx.Tx, batch []request) error {
		keys := make([]relay.Key, len(batch))
		for i, r := range batch {
			keys[i] = r.key
		}
		return holdLanes(ctx, tx, q.row, claim, keys)
	})
}

// withoutLanes carries out one batch while relays compete for rows. Nobody leases the lanes then, and the mode lock keeps it so until the
// transaction ends. Competing relays leave parked keys out; an event that one of them has locked is left for later.
func (q *requests) withoutLanes(ctx context.Context) (relay.Carried, error) {
	all := make([]int32, q.row.Lanes)
	for i := range all {
		all[i] = int32(i)
	}
	done, err := q.next(ctx, all, allReady, func(ctx context.Context, tx pgx.Tx, _ []request) error {
		return refuseIfLeased(ctx, tx, q.row.ID)
	})
	if errors.Is(err, errLeased) {
		// A relay that leases lanes has come in between, and will do it.
		return relay.Carried{}, nil
	}
	return done, err
}

func allReady(keys []relay.Key) []relay.Key { return keys }

// guard keeps out, until the transaction ends, everybody who could have the keys of the batch in flight.
type guard func(ctx context.Context, tx pgx.Tx, batch []request) error

func (q *requests) next(ctx context.Context, lanes []int32, ready func([]relay.Key) []relay.Key, hold guard) (relay.Carried, error) {
	batch, err := q.read(ctx, lanes)
	if err != nil {
		q.endRound()
		return relay.Carried{}, fmt.Errorf("read the requests for %s: %w", q.row.Table, err)
	}
	full := len(batch) == int(q.size)
	if full {
		q.after = batch[len(batch)-1].id
	}
	batch = q.onlyReady(batch, ready)
	var done relay.Carried
	if len(batch) > 0 {
		done, err = q.carryOut(ctx, batch, full, hold)
	}
	if !full || err != nil {
		q.endRound()
	}
	if err != nil {
		return relay.Carried{}, fmt.Errorf("carry out %d requests for %s: %w", len(batch), q.row.Table, err)
	}
	done.More = full
	return done, nil
}

// read relies on the index request_open, which holds only open ones.
func (q *requests) read(ctx context.Context, lanes []int32) ([]request, error) {
	var batch []request
	err := q.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `
SELECT id, verb, topic, partition_key, id_of_event, event_id, requested_by, reason FROM outbox.request
WHERE source = $1 AND done_at IS NULL AND id > $2 AND `+q.row.Lane("partition_key", "$3::integer")+` = ANY ($4::integer[])
ORDER BY id LIMIT $5`, q.row.ID, q.after, q.row.Lanes, lanes, q.size)
		if err != nil {
			return err
		}
		batch, err = pgx.CollectRows(rows, scanRequest)
		return err
	})
	return batch, err
}

func scanRequest(row pgx.CollectableRow) (request, error) {
	var r request
	var id *int64
	var eventID *uuid.UUID
	err := row.Scan(&r.id, &r.verb, &r.key.Topic, &r.key.PartitionKey, &id, &eventID, &r.requestedBy, &r.reason)
	if id != nil && eventID != nil {
		r.event = &relay.Ref{ID: *id, EventID: *eventID}
	} else if id != nil || eventID != nil {
		// Half a name is none: no event has the zero event id.
		r.event = &relay.Ref{}
	}
	return r, err
}
