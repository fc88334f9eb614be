package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// firstBurial is how many events are moved at first: they may be those that were too large.
const firstBurial = 50

// Bury implements [relay.Attempts]. It is one transaction, whatever the number of events.
func (f *failures) Bury(ctx context.Context, claim relay.Claim, dead []relay.DeadEvent) (became []relay.Burial, err error) {
	full := len(dead) >= int(f.burials)
	if full {
		dead = dead[:f.burials]
	}
	began := f.now()
	b := &burying{failures: f, until: began.Add(slowBatch), became: make([]relay.Burial, len(dead))}
	err = pg.InTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) error { return b.all(ctx, tx, claim, dead) })
	f.burials.learn(f.now().Sub(began), full)
	if isBusy(err) && ctx.Err() == nil {
		// Somebody has a lane locked; whatever was moved is back.
		for i := range b.became {
			b.became[i] = relay.Burial{Err: relay.ErrLocked}
		}
		return b.became, nil
	}
	if err != nil {
		return nil, fmt.Errorf("move %d events of %s to outbox.dead_event: %w", len(dead), f.row.Table, err)
	}
	return b.became, nil
}

// burying is one transaction that moves events which the relay gives up.
type burying struct {
	*failures
	// until is when nothing more is begun.
	until  time.Time
	became []relay.Burial
}

// grave is an event to be moved, with its place among those that were given.
type grave struct {
	death
	n int
}

func (b *burying) all(ctx context.Context, tx pgx.Tx, claim relay.Claim, dead []relay.DeadEvent) error {
	settings := batchSettings
	if len(dead) == 1 {
		// However large it is, it is moved at last.
		settings = buryingSettings
	}
	if _, err := tx.Exec(ctx, settings); err != nil {
		return fmt.Errorf("set the transaction up: %w", err)
	}
	keys, graves := make([]relay.Key, len(dead)), make([]grave, len(dead))
	for i, d := range dead {
		keys[i] = d.Key
		graves[i] = grave{death{key: d.Key, ref: d.Event, code: d.Code, reason: d.Reason, by: d.By, attempts: 1, letter: d.Letter}, i}
	}
	if err := holdLanes(ctx, tx, b.row, claim, keys); err != nil {
		return err
	}
	tell := func(err error) bool { return isBusy(err) || refusesForGood(err) }
	return halves[grave]{do: b.move, tell: tell, take: b.take}.attempt(ctx, tx, graves)
}

// errStays is of a row that is not deleted and still there: a trigger or row-level security.
var errStays = errors.New("the table keeps the row: a trigger, or row-level security, lets no DELETE through")

// errOtherKey is of a row that was changed while its event was published.
var errOtherKey = errors.New("the row has another topic or partition key now")

// move moves events, and notes what became of each.
func (b *burying) move(ctx context.Context, tx pgx.Tx, graves []grave) error {
	if b.now().After(b.until) {
		b.note(graves, relay.Burial{Err: relay.ErrLocked})
		return nil
	}
	deaths := make([]death, len(graves))
	for i, g := range graves {
		deaths[i] = g.death
	}
	moved, err := bury(ctx, tx, b.row, deaths)
	if err != nil {
		return err
	}
	var left []grave
	for i, m := range moved {
		switch g := graves[i]; {
		case m.moved:
			b.became[g.n] = relay.Burial{Moved: true}
		case m.found:
			b.became[g.n] = relay.Burial{Err: &relay.RefusedError{Err: errStays}}
		default:
			left = append(left, g)
		}
	}
	return b.lookAt(ctx, tx, left)
}

// lookAt finds out why events were not found to be moved. Those that are unpublished all the same were locked.
func (b *burying) lookAt(ctx context.Context, tx pgx.Tx, left []grave) error {
	if len(left) == 0 {
		return nil
	}
	b.note(left, relay.Burial{})
	ids, eventIDs, topics, keys := make([]int64, len(left)), make([]string, len(left)), make([]string, len(left)), make([]string, len(left))
	for i, g := range left {
		ids[i], eventIDs[i], topics[i], keys[i] = g.ref.ID, g.ref.EventID.String(), g.key.Topic, g.key.PartitionKey
	}
	rows, err := tx.Query(ctx, fmt.Sprintf(`
WITH found AS MATERIALIZED (
    SELECT u.n, t.same, t.locker FROM unnest($1::bigint[], $2::text[]::uuid[], $3::text[], $4::text[]) WITH ORDINALITY u(id, event_id, topic, key, n) CROSS JOIN LATERAL (
        SELECT (t.topic::text = u.topic AND t.partition_key::text = u.key) IS TRUE AS same, t.xmax AS locker FROM %s t
        WHERE t.id = u.id AND (t.event_id = u.event_id) IS TRUE AND t.published_at IS NULL OFFSET 0) t
)
SELECT t.n, t.same, %s FROM found t%s`, b.row.Table.SQL(), lockerColumns, lockerJoin), ids, eventIDs, topics, keys)
	if err != nil {
		return fmt.Errorf("look at the rows: %w", err)
	}
	var n int
	var same bool
	var who locker
	_, err = pgx.ForEachRow(rows, append([]any{&n, &same}, who.targets()...), func() error {
		became := relay.Burial{Err: relay.ErrLocked, LockedBy: who.text()}
		if !same {
			became = relay.Burial{Err: &relay.RefusedError{Err: errOtherKey}}
		}
		b.became[left[n-1].n] = became
		return nil
	})
	if err != nil {
		return fmt.Errorf("look at the rows: %w", err)
	}
	return nil
}

// take takes events that the server refuses to move. A right that is missing is missing for all.
func (b *burying) take(graves []grave, err error) bool {
	switch {
	case len(graves) > 1 && pg.Code(err) != "42501":
		return false
	case isBusy(err):
		b.note(graves, relay.Burial{Err: relay.ErrLocked})
	default:
		b.note(graves, relay.Burial{Err: &relay.RefusedError{Err: b.explainBury(err)}})
	}
	return true
}

func (b *burying) note(graves []grave, became relay.Burial) {
	for _, g := range graves {
		b.became[g.n] = became
	}
}

// buryingSettings keep a locked row from holding up the lane, whose lease is renewed meanwhile.
const buryingSettings = plainPlan + `, set_config('lock_timeout', '250ms', true)`

// refusesForGood tells that moving this event meets the same answer again, also from a trigger that raises.
func refusesForGood(err error) bool { return pg.IsRefusal(err) || isRaised(err) }

// explainBury names the rights that are missing, if that is what it is.
func (f *failures) explainBury(err error) error {
	if pg.Code(err) != "42501" {
		return err
	}
	return fmt.Errorf("%w; to move events, the relay needs: GRANT DELETE ON TABLE %s and GRANT INSERT, UPDATE ON TABLE outbox.dead_event, to the relay's role", err, f.row.Table.SQL())
}
