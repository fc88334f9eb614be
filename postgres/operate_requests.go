package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// Withdraw implements [operate.Requests].
func (s *Store) Withdraw(ctx context.Context, request int64, by string) (a operate.Answer, withdrawn bool, err error) {
	err = s.change(ctx, "take a request back", func(ctx context.Context, l survey) error {
		if err := ownRequest(ctx, l, request); err != nil {
			return err
		}
		// It waits for a relay that is carrying the request out, and then finds it done.
		tag, err := l.tx.Exec(ctx, `
UPDATE outbox.request SET done_at = clock_timestamp(), outcome = $3, error = $4 WHERE source = $1::text::uuid AND id = $2::bigint AND done_at IS NULL`,
			l.row.ID.String(), request, OutcomeWithdrawn, l.row.Storable("taken back by "+by))
		withdrawn = err == nil && tag.RowsAffected() > 0
		return err
	})
	if err != nil || withdrawn {
		return operate.Answer{}, withdrawn, err
	}
	row, err := s.db.Source(ctx)
	if err != nil {
		return operate.Answer{}, false, err
	}
	out, done, err := s.outcome(ctx, row.ID, request)
	if err == nil && !done {
		err = fmt.Errorf("request %d of %s is open, and cannot be taken back", request, s.db.Table)
	}
	return operate.Answer{Text: out.Text, Problem: out.Problem}, false, err
}

// Delay implements [operate.Requests].
func (s *Store) Delay(ctx context.Context, request int64) (why string, err error) {
	err = s.change(ctx, "look why a request is open", func(ctx context.Context, l survey) error {
		var d operate.EventDetail
		err := l.tx.QueryRow(ctx, `SELECT topic, partition_key FROM outbox.request WHERE source = $1::text::uuid AND id = $2::bigint`, l.row.ID.String(), request).
			Scan(&d.Topic, &d.PartitionKey)
		if err != nil {
			return fmt.Errorf("read request %d: %w", request, err)
		}
		why, err = l.delay(ctx, &d)
		return err
	})
	return why, err
}

// delay says why nothing is done about the key of d by whoever has its lane.
func (l survey) delay(ctx context.Context, d *operate.EventDetail) (string, error) {
	d.Lane = relay.Lane(d.PartitionKey, l.row.Lanes)
	if err := l.addLane(ctx, d); err != nil {
		return "", err
	}
	for _, find := range []func(context.Context, *operate.EventDetail) ([]operate.Reason, error){l.whyOutage, l.whyNobody} {
		reasons, err := find(ctx, d)
		if err != nil {
			return "", err
		}
		if len(reasons) > 0 {
			return reasons[0].Text, nil
		}
	}
	if d.LaneOwner == "" {
		return "relays of mode competing are alive, and this command has to wait for a row that one of them has locked", nil
	}
	return d.LaneOwner + " has its lane, and has not come to it: something of the key is on its way to Kafka, such as a dead letter, or another transaction has the row locked", nil
}

// ownRequest refuses a request that is not there, or that a job has to answer for.
func ownRequest(ctx context.Context, l survey, request int64) error {
	var job int64
	err := l.tx.QueryRow(ctx, `SELECT coalesce(job, 0) FROM outbox.request WHERE source = $1::text::uuid AND id = $2::bigint`, l.row.ID.String(), request).Scan(&job)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return operate.Refuse(operate.CodeNotFound, "there is no request %d; outbox jobs list shows those that are open", request)
	case err == nil && job != 0:
		return operate.Refuse(operate.CodeConflict, "request %d is one of job %d: outbox jobs cancel %d takes back all of its requests", request, job, job)
	}
	return err
}

// addOpenRequests adds to the first page of jobs the requests that belong to none, over the index request_open.
func (l survey) addOpenRequests(ctx context.Context, q operate.JobQuery, p *operate.JobPage) error {
	if q.After != "" || q.State != "" && q.State != "running" {
		return nil
	}
	var w query
	list := append([]string{"source = " + w.param(l.row.ID, "uuid"), "done_at IS NULL", "job IS NULL"}, append(w.equal("verb", q.Verb), w.equal("requested_by", q.Actor)...)...)
	rows, err := l.tx.Query(ctx, fmt.Sprintf(`
SELECT id, verb, topic, partition_key, coalesce(id_of_event, 0), coalesce(event_id, %s), requested_by, reason, requested_at FROM outbox.request
WHERE %s ORDER BY id LIMIT %d`, nilUUID, and(list...), operate.MaxOpenRequests+1), w.args...)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r operate.OpenRequest, err error) {
		var event operate.Ref
		err = row.Scan(&r.ID, &r.Verb, &r.Topic, &r.PartitionKey, &event.ID, &event.EventID, &r.Actor, &r.Reason, &r.At)
		if r.At = r.At.UTC(); event.EventID != uuid.Nil || event.ID != 0 {
			r.Event = &event
		}
		return r, err
	})
	p.Requests = found[:min(len(found), operate.MaxOpenRequests)]
	p.MoreRequests = len(found) > operate.MaxOpenRequests
	return err
}
