package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// recorder notes the statements of a look.
type recorder struct {
	pgx.Tx
	texts []string
	args  [][]any
}

func (r *recorder) Query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	r.texts, r.args = append(r.texts, text), append(r.args, args)
	return r.Tx.Query(ctx, text, args...)
}

func (r *recorder) QueryRow(ctx context.Context, text string, args ...any) pgx.Row {
	r.texts, r.args = append(r.texts, text), append(r.args, args)
	return r.Tx.QueryRow(ctx, text, args...)
}

// shapes are queries with every shape of a statement, in the middle and at both ends of a table of so many rows.
func shapes(rows int64) map[string]operate.EventFilter {
	return map[string]operate.EventFilter{
		"all": {}, "topic": {Topic: some("no.such.topic")}, "key": {PartitionKey: some("key 17")}, "type": {Type: some("order.confirmed.v1")},
		"aggregate": {AggregateType: some("Order"), AggregateID: some("no such")}, "old": {MinAge: 1000 * time.Hour}, "error": {Error: "no such error"},
		"from": {CreatedFrom: time.Now().Add(-time.Minute), CreatedUntil: time.Now()},
		"ids":  {MinID: rows / 3, MaxID: rows / 2}, "ids and topic": {MinID: rows / 3, Topic: some("no.such.topic")},
		"named": {Refs: []operate.Ref{{ID: 1}, {ID: rows}, {ID: 99 * rows}, {EventID: eventID(1)}, {EventID: eventID(2)}}},
	}
}

var states = []operate.State{operate.StatePending, operate.StateParked, operate.StateWaiting, operate.StatePublished, operate.StateDead, operate.StateAny}

// scan is what no plan may hold: the table read from one end to the other, or sorted whole. What was named by ids is sorted, after it was found.
var scan = regexp.MustCompile(`(Seq Scan|Bitmap Heap Scan) on outbox_event |Sort Key: e\.id[^\n]*\n *->  (Index|Seq)`)

// wantNoScan runs a look, and looks at the plan of each of its statements.
func (d *desk) wantNoScan(what string, fn func(context.Context, survey) error) {
	d.Helper()
	_, err := see(d.Context(), d.store, lookTime, what, func(ctx context.Context, l survey) (bool, error) {
		r := &recorder{Tx: l.tx}
		l.tx = r
		if err := fn(ctx, l); err != nil && operate.CodeOf(err) != operate.CodeNotFound {
			return false, err
		}
		for i, text := range r.texts {
			rows, err := r.Tx.Query(ctx, "EXPLAIN "+text, r.args[i]...)
			if err != nil {
				return false, err
			}
			plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return false, err
			}
			if found := scan.FindString(strings.Join(plan, "\n")); found != "" {
				d.Errorf("%s: %s in the plan of\n%s\n%s", what, found, text, strings.Join(plan, "\n"))
			}
		}
		return true, nil
	})
	if err != nil {
		d.Fatalf("%s: %v", what, err)
	}
}

// grow fills the table with unpublished events, of which every twentieth each is parked, has failed, and is dead in another place.
func (d *desk) grow(rows int) {
	d.Helper()
	d.exec("ALTER TABLE outbox_event SET (autovacuum_enabled = off)")
	d.exec(`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at)
SELECT gen_random_uuid(), 'Order', i::text, 'order.confirmed.v1', '{"n": 1}', 'shop.order', 'key ' || i, now() - (60000 - i) * interval '1 s' FROM generate_series(1, $1::int) i`, rows)
	d.exec(fmt.Sprintf(`INSERT INTO outbox.parked_key (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason)
SELECT $1, topic, %s, partition_key, 0, id, event_id, event_type, 'MESSAGE_TOO_LARGE', 'too large' FROM outbox_event WHERE id %% 20 = 0`, pg.KeyHashSQL("topic", "partition_key")), d.id)
	d.exec(`INSERT INTO outbox.failure (source, id, event_id, topic, partition_key, lane, attempts, last_error, next_attempt_at)
SELECT $1, id, event_id, topic, partition_key, 0, 1, 'no', now() + interval '1 h' FROM outbox_event WHERE id % 20 = 1`, d.id)
	d.exec(`INSERT INTO outbox.dead_event (source, id, event_id, topic, partition_key, lane, event, code, reason, died_by)
SELECT $1, id + 100000, gen_random_uuid(), topic, partition_key, 0, to_jsonb(e), 'SKIPPED', 'nobody wants it', 'ann' FROM outbox_event e WHERE id % 20 = 2`, d.id)
}

// Every list is by an index, whatever the statistics say: none at all, fresh ones, and those from before a backlog came or went.
func TestLooksNeverScanTheTable(t *testing.T) {
	t.Parallel()
	const rows = 60_000
	d := newDesk(t)
	// More rows than these in a window would make every list an end of its stream.
	d.store.windows = windows{events: 2000, waiting: 1000, dead: 500, keys: 500, topics: 500}
	d.grow(rows)
	for _, state := range []struct{ name, sql string }{
		{"all unpublished, no statistics", "SELECT 1"},
		{"all unpublished, analyzed", "ANALYZE"},
		{"few unpublished, old statistics", fmt.Sprintf("UPDATE outbox_event SET published_at = now() WHERE id < %d", rows-100)},
		{"few unpublished, analyzed", "ANALYZE outbox_event"},
	} {
		d.exec(state.sql)
		d.wantNoScans(state.name, rows)
	}
}

func (d *desk) wantNoScans(name string, rows int64) {
	d.Helper()
	for shape, f := range shapes(rows) {
		for _, f.State = range states {
			for _, order := range []operate.Order{operate.NewestFirst, operate.OldestFirst} {
				q := operate.EventQuery{EventFilter: f, Order: order, Limit: operate.DefaultPage}
				what := fmt.Sprintf("%s: %s, %s, %s first", name, f.State, shape, order)
				d.wantNoScan(what, func(ctx context.Context, l survey) error {
					p, err := l.events(ctx, q)
					if q.After = p.Next; err != nil || q.After == "" {
						return err
					}
					_, err = l.events(ctx, q)
					return err
				})
			}
		}
	}
	d.wantNoScan(name+": topics", func(ctx context.Context, l survey) error {
		_, err := l.listTopics(ctx)
		return err
	})
	for _, ref := range []operate.Ref{{ID: 20}, {ID: 21}, {ID: rows}, {ID: 99 * rows}, {EventID: eventID(1)}} {
		d.wantNoScan(fmt.Sprintf("%s: event %s", name, ref), func(ctx context.Context, l survey) error {
			_, err := l.event(ctx, ref, true)
			return err
		})
	}
}
