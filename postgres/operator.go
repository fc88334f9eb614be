package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

const (
	// awaitEvery is how often a request is looked at.
	awaitEvery = 200 * time.Millisecond
	// operatorTTL is the lease of a command that carries out requests itself; it is given back when they are done.
	operatorTTL = 15 * time.Second
)

// Operator is the operators' side of a source: it reads the relay's state and asks the relay for changes. It works over the given
// pool and holds nothing open between calls.
type Operator struct {
	db    pg.Access
	log   *slog.Logger
	every time.Duration
	// size is how many requests the last batch took that it carried out itself; 0 before the first. What was too much once is not tried again and again.
	size atomic.Int64
}

// NewOperator returns the operators' side of the table in cfg; of cfg its Logger is used besides, for what a call waits for. It connects to nothing yet.
func NewOperator(pool *pgxpool.Pool, cfg Config) (*Operator, error) {
	db, err := pg.NewAccess(pool, cfg.Table)
	if err != nil {
		return nil, err
	}
	return &Operator{db: db, log: cmp.Or(cfg.Logger, slog.Default()), every: awaitEvery}, nil
}

// Status returns all that is known of the source. It counts to 1,000,000 and gives up after 10 s.
func (o *Operator) Status(ctx context.Context) (Status, error) {
	row, err := o.db.Source(ctx)
	if err != nil {
		return Status{}, err
	}
	return readStatus(ctx, o.db, row, statusLimit)
}

// Parked returns the keys that are parked, in the order in which they were.
func (o *Operator) Parked(ctx context.Context) ([]relay.ParkedKey, error) {
	row, err := o.db.Source(ctx)
	if err != nil {
		return nil, err
	}
	f := newFailures(o.db, row)
	return f.parkedKeys(ctx, "$2::boolean", true)
}

// Competing returns the names of the relays that compete for the source's rows and are alive. They park no key: what they leave out for a while after a
// failure is nowhere in the database.
func (o *Operator) Competing(ctx context.Context) ([]string, error) {
	row, err := o.db.Source(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := o.db.Pool.Query(ctx, `
SELECT name FROM outbox.relay WHERE source = $1 AND mode = 'competing' AND expires_at > clock_timestamp() ORDER BY name`, row.ID)
	if err != nil {
		return nil, fmt.Errorf("look for competing relays of %s: %w", o.db.Table, err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for competing relays of %s: %w", o.db.Table, err)
	}
	return names, nil
}

// ErrCompeting refuses a request for a key that is not parked while a competing relay is alive: what such a relay leaves out for a while is its own affair.
var ErrCompeting = errors.New("the key is not parked, and no key gets parked in mode competing: mend the event, it is tried again by itself")

// Request asks the key's relay for a verb and returns the request's id for [Operator.Await]: [VerbUnpark] or [VerbRetry], or [VerbSkip] or [VerbDead] for the event that
// stops the key. by says who asks and why goes into the record; neither may hold a secret. While a competing relay is alive and the key is not parked it writes nothing
// down, and the error is [ErrCompeting].
func (o *Operator) Request(ctx context.Context, verb string, key relay.Key, by, why string) (int64, error) {
	if !slices.Contains([]string{VerbUnpark, VerbRetry, VerbSkip, VerbDead}, verb) {
		return 0, fmt.Errorf("request %s: the verb is unknown for a key: use %s, %s, %s or %s", verb, VerbUnpark, VerbRetry, VerbSkip, VerbDead)
	}
	return o.ask(ctx, 0, verb, key, nil, by, why)
}

// RequestEvent asks the relay of the event's key for a verb, as [Operator.Request] does: [VerbRetry], [VerbSkip], [VerbDead] or [VerbRestore]. key is the event's.
func (o *Operator) RequestEvent(ctx context.Context, verb string, key relay.Key, event relay.Ref, by, why string) (int64, error) {
	if !slices.Contains([]string{VerbRetry, VerbSkip, VerbDead, VerbRestore}, verb) {
		return 0, fmt.Errorf("request %s: the verb is unknown for an event: use %s, %s, %s or %s", verb, VerbRetry, VerbSkip, VerbDead, VerbRestore)
	}
	return o.ask(ctx, 0, verb, key, &event, by, why)
}

// ask writes a request down, for a key where there is no event, and notes its id in the row of the audit that it belongs to, if there is one.
func (o *Operator) ask(ctx context.Context, audit int64, verb string, key relay.Key, event *relay.Ref, by, why string) (id int64, err error) {
	row, err := o.db.Source(ctx)
	if err != nil {
		return 0, err
	}
	args := []any{row.ID, verb, key.Topic, key.PartitionKey, pg.Storable(by), pg.Storable(why)}
	sql := `
INSERT INTO outbox.request (source, verb, topic, partition_key, requested_by, reason) SELECT $1, $2, $3, $4, $5, $6
WHERE EXISTS (SELECT FROM outbox.parked_key WHERE source = $1 AND key_hash = $7)
   OR NOT EXISTS (SELECT FROM outbox.relay WHERE source = $1 AND mode = 'competing' AND expires_at > clock_timestamp()) RETURNING *`
	if event == nil {
		args = append(args, pg.KeyHash(key))
	} else {
		args = append(args, event.ID, event.EventID)
		sql = `
INSERT INTO outbox.request (source, verb, topic, partition_key, requested_by, reason, id_of_event, event_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING *`
	}
	sql = "WITH asked AS (" + sql + ")" + alsoAskedSQL(row)
	if audit != 0 {
		args = append(args, audit)
		sql += fmt.Sprintf(`, noted AS (
    UPDATE outbox.audit a SET filter = a.filter || jsonb_build_object('request', asked.id::text) FROM asked WHERE a.id = $%d::bigint
)`, len(args))
	}
	sql += " SELECT id FROM asked"
	err = o.db.Pool.QueryRow(ctx, sql, args...).Scan(&id)
	if event == nil && errors.Is(err, pgx.ErrNoRows) {
		err = ErrCompeting
	}
	if err != nil {
		return 0, fmt.Errorf("request %s for %s: %w", verb, o.db.Table, err)
	}
	return id, nil
}

// Outcome is how a request ended.
type Outcome struct {
	// Text says what was done, for people.
	Text string
	// Problem says why nothing was done and what to do about it; "" when the request was carried out.
	Problem string
	// At is when, by the database's clock.
	At time.Time
}

// Await waits until the request is done, and does it itself when no relay is alive to do it. ctx bounds the wait: a live relay may
// have the key in flight for as long as Kafka is away. The request stays open then, and will be done.
func (o *Operator) Await(ctx context.Context, id int64) (Outcome, error) {
	outcome, err := o.await(ctx, id)
	if err != nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
		return outcome, fmt.Errorf("await request %d of %s: the request is queued and may still be carried out; outbox events show tells of an event what keeps it: %w", id, o.db.Table, cmp.Or(ctx.Err(), err))
	}
	return outcome, err
}

func (o *Operator) await(ctx context.Context, id int64) (Outcome, error) {
	row, err := o.db.Source(ctx)
	if err != nil {
		return Outcome{}, err
	}
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	for {
		outcome, done, err := o.outcome(ctx, row.ID, id)
		if err != nil || done {
			return outcome, err
		}
		if err := o.standIn(ctx, row); err != nil {
			return Outcome{}, fmt.Errorf("carry out request %d without a relay; it stays queued: %w", id, err)
		}
		if outcome, done, err = o.outcome(ctx, row.ID, id); err != nil || done {
			return outcome, err
		}
		select {
		case <-ctx.Done():
			return Outcome{}, ctx.Err()
		case <-tick.C:
		}
	}
}

func (o *Operator) outcome(ctx context.Context, source uuid.UUID, id int64) (Outcome, bool, error) {
	var out Outcome
	var at *time.Time
	err := o.db.Pool.QueryRow(ctx, `
SELECT done_at, coalesce(outcome, ''), coalesce(error, '') FROM outbox.request WHERE source = $1 AND id = $2`, source, id).
		Scan(&at, &out.Text, &out.Problem)
	if errors.Is(err, pgx.ErrNoRows) {
		return Outcome{}, false, fmt.Errorf("await request %d: there is none of this id for %s", id, o.db.Table)
	}
	if err != nil {
		return Outcome{}, false, fmt.Errorf("await request %d of %s: %w", id, o.db.Table, err)
	}
	if at == nil {
		return Outcome{}, false, nil
	}
	out.At = *at
	return out, true, nil
}

// standInName is what a command is called while it has the lanes; it has no version.
const standInName = "operator"

// standIn carries out the open requests when no relay is alive to do it, or only such as stand by and take no lanes: as the owner of the lanes, or beside relays that compete
// for rows. Of a parked key nothing is in flight then.
func (o *Operator) standIn(ctx context.Context, row pg.Source) error {
	var leased, competing bool
	err := o.db.Pool.QueryRow(ctx, `
SELECT EXISTS (SELECT FROM outbox.lane WHERE source = $1 AND expires_at > clock_timestamp())
    OR EXISTS (SELECT FROM outbox.relay WHERE source = $1 AND mode = 'leased' AND standing > 0 AND expires_at > clock_timestamp()),
       EXISTS (SELECT FROM outbox.relay WHERE source = $1 AND mode = 'competing' AND expires_at > clock_timestamp())`, row.ID).Scan(&leased, &competing)
	if err != nil || leased {
		return err
	}
	q := newRequests(o.db, row)
	if size := o.size.Load(); size > 0 {
		q.size = pace(size)
	}
	defer func() { o.size.Store(int64(q.size)) }()
	if competing {
		return repeat(ctx, q.withoutLanes)
	}
	l := leases{db: o.db, row: row}
	me := relay.Owner{ID: uuid.New(), Name: standInName}
	claim, err := l.Claim(ctx, me, operatorTTL, relay.Claim{})
	if err != nil {
		return err
	}
	err = repeat(ctx, func(ctx context.Context) (relay.Carried, error) { return q.Requests(ctx, claim, allReady) })
	return errors.Join(err, leave(&l, claim))
}

// repeat carries out batches while there are more, for a part of the operator's lease.
func repeat(ctx context.Context, carryOut func(context.Context) (relay.Carried, error)) error {
	for began := time.Now(); time.Since(began) < operatorTTL/3; {
		done, err := carryOut(ctx)
		if err != nil || !done.More {
			return err
		}
	}
	return nil
}

// StandIn carries out open requests when no relay is alive to do it, for a few seconds at most; else it does nothing.
func (o *Operator) StandIn(ctx context.Context) error {
	row, err := o.db.Source(ctx)
	if err != nil {
		return err
	}
	if err := o.standIn(ctx, row); err != nil {
		return fmt.Errorf("carry out requests without a relay; they stay queued: %w", err)
	}
	return nil
}

// leave gives the lanes back even when the command was interrupted: a relay that starts must not wait for them.
func leave(l *leases, claim relay.Claim) error {
	ctx, cancel := context.WithTimeout(context.Background(), operatorTTL/3)
	defer cancel()
	return l.Leave(ctx, claim)
}
