package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// reply is what becomes of a request.
type reply struct {
	// outcome says what was done; with a problem it is one of the Outcome constants, and the problem says why nothing was.
	outcome, problem string
	// later tells that it stays open: somebody else has the row locked, or the time of the batch is over.
	later bool
	// gone tells that the event is not waiting in the table.
	gone bool
	// released tells that the key is not parked any more, changed that it is to be read again: an event of it was taken away, put back, or corrected.
	released, changed bool
	// moved is the key that the event has by now which has stopped a released one; nil when it is the same.
	moved *relay.Key
}

func refused(format string, args ...any) reply {
	return reply{outcome: OutcomeRefused, problem: fmt.Sprintf(format, args...)}
}

func already(format string, args ...any) reply {
	return reply{outcome: OutcomeAlready, problem: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) reply {
	return reply{outcome: OutcomeNotFound, problem: fmt.Sprintf(format, args...)}
}

// ofNothing is the reply to a request about an event that is not waiting in the table.
func (r reply) ofNothing() reply {
	r.gone = true
	return r
}

// batch is one transaction that carries out requests.
type batch struct {
	*requests
	tx pgx.Tx
	// until is when nothing more is begun.
	until time.Time
	// overtaken says of dead events whether newer ones of their keys are out.
	overtaken map[relay.Ref]Overtaken
	// columns are the table's; nil until they are needed.
	columns []column
	// waits are the keys of which one that was tried stays open.
	waits map[relay.Key]bool
}

// batchSettings are those of plainPlan, and keep a locked row, or rows of many megabytes, from holding up the lanes.
const batchSettings = plainPlan + `, set_config('lock_timeout', '250ms', true), set_config('statement_timeout', '5s', true)`

// carryOut does the requests in one transaction, with their lanes locked, and closes them.
func (q *requests) carryOut(ctx context.Context, rs []request, full bool, hold guard) (relay.Carried, error) {
	overtaken, err := q.lookAhead(ctx, rs)
	if err != nil {
		return relay.Carried{}, err
	}
	began := q.now()
	var done relay.Carried
	err = pg.InTx(ctx, q.db, func(ctx context.Context, tx pgx.Tx) error {
		b := &batch{requests: q, tx: tx, until: began.Add(slowBatch), overtaken: overtaken, waits: map[relay.Key]bool{}}
		if _, err := tx.Exec(ctx, batchSettings); err != nil {
			return fmt.Errorf("set the transaction up: %w", err)
		}
		if err := hold(ctx, tx, rs); err != nil {
			return err
		}
		rs, over, err := q.lock(ctx, tx, rs)
		if err != nil || len(rs)+len(over) == 0 {
			return err
		}
		replies, err := b.all(ctx, rs)
		if err != nil {
			return err
		}
		// Nobody waits for what a job has left, and it must surprise nobody later.
		rs, replies = append(rs, over...), append(replies, alike(over, reply{outcome: OutcomeCancelled, problem: jobIsOver})...)
		done = carried(rs, replies)
		return closeRequests(ctx, tx, rs, replies)
	})
	q.size.learn(q.now().Sub(began), full)
	if isBusy(err) && ctx.Err() == nil {
		// Somebody has a lane or a request locked; the next round tries again.
		for _, r := range rs {
			q.leave(r.key)
		}
		return relay.Carried{}, nil
	}
	if err != nil {
		return relay.Carried{}, err
	}
	return done, nil
}

// lock returns those that are still open: whoever held the lane before may have done some, or a job was cancelled. over are those of jobs that have ended without
// closing them, or that nobody runs any more. What is behind one that cannot be locked is left with it.
func (q *requests) lock(ctx context.Context, tx pgx.Tx, rs []request) (open, over []request, err error) {
	rows, err := tx.Query(ctx, `
SELECT r.id, r.job IS NULL OR coalesce(`+jobGoesOn+`, false) FROM outbox.request r LEFT JOIN outbox.job j ON j.id = r.job
WHERE r.id = ANY ($1::bigint[]) AND r.done_at IS NULL ORDER BY r.id FOR UPDATE OF r SKIP LOCKED`, requestIDs(rs))
	if err != nil {
		return nil, nil, fmt.Errorf("lock the requests: %w", err)
	}
	goesOn := make(map[int64]bool, len(rs))
	var id int64
	var on bool
	_, err = pgx.ForEachRow(rows, []any{&id, &on}, func() error {
		goesOn[id] = on
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("lock the requests: %w", err)
	}
	for _, r := range rs {
		switch on, locked := goesOn[r.id]; {
		case !locked:
			q.leave(r.key)
		case !on:
			over = append(over, r)
		case !q.isLeft(r.key):
			open = append(open, r)
		}
	}
	return open, over, nil
}

func requestIDs(rs []request) []int64 {
	ids := make([]int64, len(rs))
	for i, r := range rs {
		ids[i] = r.id
	}
	return ids
}

func closeRequests(ctx context.Context, tx pgx.Tx, rs []request, replies []reply) error {
	var ids []int64
	var outcomes, problems []string
	for i, r := range replies {
		if !r.later {
			ids, outcomes, problems = append(ids, rs[i].id), append(outcomes, pg.Storable(r.outcome)), append(problems, pg.Storable(r.problem))
		}
	}
	_, err := tx.Exec(ctx, `
UPDATE outbox.request r SET done_at = clock_timestamp(), outcome = u.outcome, error = nullif(u.problem, '')
FROM unnest($1::bigint[], $2::text[], $3::text[]) u(id, outcome, problem) WHERE r.id = u.id`, ids, outcomes, problems)
	if err != nil {
		return fmt.Errorf("close the requests: %w", err)
	}
	return nil
}

// carried sums the replies up for the relay. A key that was released by one request and parked by none is released.
func carried(rs []request, replies []reply) (done relay.Carried) {
	released, changed := map[relay.Key]bool{}, map[relay.Key]bool{}
	for i, r := range replies {
		if !r.later {
			done.Done++
		}
		if key := rs[i].key; r.released && !released[key] {
			released[key] = true
			done.Released = append(done.Released, key)
			if r.moved != nil {
				done.Changed = append(done.Changed, *r.moved)
			}
		} else if r.changed && !changed[key] {
			changed[key] = true
			done.Changed = append(done.Changed, key)
		}
	}
	return done
}

// all carries out the requests, stage after stage, and returns the replies in their order.
func (b *batch) all(ctx context.Context, rs []request) ([]reply, error) {
	replies := make([]reply, len(rs))
	for _, st := range stages(rs) {
		some := make([]request, len(st.members))
		for i, m := range st.members {
			some[i] = rs[m]
		}
		got, err := b.attempt(ctx, st.verb, some)
		if err != nil {
			return nil, err
		}
		for i, m := range st.members {
			replies[m] = got[i]
		}
	}
	return replies, nil
}

// attempt does requests of one verb, but for those of keys of which an earlier one stays open.
func (b *batch) attempt(ctx context.Context, verb string, rs []request) ([]reply, error) {
	return b.only(rs, func(i int) bool { return !b.waits[rs[i].key] }, func(rs []request) ([]reply, error) {
		replies, err := b.try(ctx, verb, rs)
		for i, r := range replies {
			if r.later {
				b.waits[rs[i].key] = true
				b.leave(rs[i].key)
			}
		}
		return replies, err
	})
}

// only has do carry out some of the requests; the others stay open.
func (b *batch) only(rs []request, which func(i int) bool, do func([]request) ([]reply, error)) ([]reply, error) {
	replies := alike(rs, reply{later: true})
	some, of := pick(rs, which)
	if len(some) == 0 {
		return replies, nil
	}
	got, err := do(some)
	for j, r := range got {
		replies[of[j]] = r
	}
	return replies, err
}

// try does requests under a savepoint, so that what the server refuses leaves the transaction able to say so. What is refused is tried in halves until it is known which of
// them it was; what was done before its turn is taken back.
func (b *batch) try(ctx context.Context, verb string, rs []request) ([]reply, error) {
	if b.now().After(b.until) {
		return alike(rs, reply{later: true}), nil
	}
	point, err := b.tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	replies, err := b.do(ctx, point, verb, rs)
	if err == nil {
		overtaking := overtakes(rs, replies)
		if some, _ := pick(rs, overtaking); len(some) == 0 {
			return replies, point.Commit(ctx)
		}
		if err := point.Rollback(ctx); err != nil {
			return nil, err
		}
		inOrder := func(i int) bool { return !overtaking(i) }
		return b.only(rs, inOrder, func(rs []request) ([]reply, error) { return b.try(ctx, verb, rs) })
	}
	if rerr := point.Rollback(ctx); rerr != nil {
		return nil, errors.Join(err, rerr)
	}
	switch {
	case ctx.Err() != nil, !isBusy(err) && !pg.IsRefusal(err) && !isRaised(err) && !errors.Is(err, errKeptOut):
		return nil, err
	case verb == VerbRestore && len(rs) == 1 && !isBusy(err):
		return alike(rs, reply{outcome: OutcomeRefused, problem: b.keptOut(ctx, rs[0], err)}), nil
	case pg.Code(err) == "42501", len(rs) == 1 && !isBusy(err):
		return alike(rs, reply{outcome: OutcomeRefused, problem: b.explain(verb, err)}), nil
	case len(rs) == 1:
		return alike(rs, reply{later: true}), nil
	}
	first, err := b.attempt(ctx, verb, rs[:len(rs)/2])
	if err != nil {
		return nil, err
	}
	second, err := b.attempt(ctx, verb, rs[len(rs)/2:])
	return append(first, second...), err
}

func alike(rs []request, r reply) []reply { return slices.Repeat([]reply{r}, len(rs)) }

// isBusy tells that somebody else is in the way, or that it was too much at once.
func isBusy(err error) bool {
	return pg.IsConflict(err) || pg.Code(err) == "55P03" || pg.Code(err) == "57014"
}

// isRaised tells that a trigger of the user's says no.
func isRaised(err error) bool { return strings.HasPrefix(pg.Code(err), "P0") }

// explain names the rights that are missing, if that is what it is.
func (b *batch) explain(verb string, err error) string {
	if pg.Code(err) != "42501" {
		return withoutValues(err).Error()
	}
	table := b.row.Table.SQL()
	switch verb {
	case VerbSkip, VerbDead:
		return fmt.Sprintf("%v; to give events up, the relay needs: GRANT DELETE ON TABLE %s and GRANT INSERT, UPDATE ON TABLE outbox.dead_event, "+
			"to the relay's role", err, table)
	case VerbRestore:
		return fmt.Sprintf("%v; to restore events, the relay needs: GRANT INSERT ON TABLE %s and GRANT DELETE ON TABLE outbox.dead_event, "+
			"to the relay's role; run what this prints as the owner of the table: %s", err, table, advice.Grants(b.row.Table.String(), pg.RoleOf(b.tx), "--restore"))
	}
	return err.Error()
}

// holdLanes locks the lanes of the keys in a transaction that decides something, and refuses when the claim does not hold one of them any more.
//
// Owner and epoch are enough, whether or not the leases have run out: nobody takes a lane without raising its epoch, and nobody takes it while it
// is locked here. So a relay that wakes up late can still decide about what nobody else has touched, and about nothing else.
func holdLanes(ctx context.Context, tx pgx.Tx, row pg.Source, claim relay.Claim, keys []relay.Key) error {
	need := newLaneSet(row.Lanes, nil)
	for _, key := range keys {
		need.add([]int32{relay.Lane(key.PartitionKey, row.Lanes)})
	}
	var lanes []int32
	var epochs []int64
	for i, lane := range claim.Lanes {
		if _, ok := need.set[lane]; ok {
			lanes, epochs = append(lanes, lane), append(epochs, claim.Epochs[i])
		}
	}
	tag, err := tx.Exec(ctx, `
SELECT FROM outbox.lane l JOIN unnest($3::integer[], $4::bigint[]) c(lane, epoch) ON c.lane = l.lane
WHERE l.source = $1 AND l.owner = $2 AND l.epoch = c.epoch ORDER BY l.lane FOR UPDATE OF l`, row.ID, claim.Owner.ID, lanes, epochs)
	if err != nil {
		return fmt.Errorf("lock the lanes: %w", err)
	}
	if int(tag.RowsAffected()) != need.len() {
		return relay.ErrLeaseLost
	}
	return nil
}
