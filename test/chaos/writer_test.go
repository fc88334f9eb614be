//go:build integration && unix

package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/test/chaos/history"
)

// schemaSQL is the business side: an order is a stream of events, its row serialises who writes it, and each transaction leaves a row that says
// that it has committed.
const schemaSQL = `
CREATE TABLE orders (topic text, key text, seq integer NOT NULL DEFAULT 0, PRIMARY KEY (topic, key));
CREATE TABLE order_change (id uuid PRIMARY KEY)`

// change is one transaction to be.
type change struct {
	// events says how many each stream gets; the streams are locked in their order.
	events map[history.Stream]int
	// size is about how many bytes each payload has; at least 100.
	size int
	// meanwhile, when not nil, is called while it is open, after its ids were drawn.
	meanwhile func()
	// undo lets the first event of each stream be written twice, the first time undone by a savepoint.
	undo bool
	// rollback ends it so.
	rollback bool
}

var errRollback = errors.New("roll back")

// errCommit tells that the transaction may have committed.
var errCommit = errors.New("the outcome of the commit is unknown")

// write carries a change out and writes down what became of it. Its error is that of the database.
func (l *lab) write(ctx context.Context, c change) error {
	tx := &transaction{id: uuid.New()}
	err := l.carryOut(ctx, c, tx)
	switch {
	case err == nil:
		tx.fate = committed
	case errors.Is(err, errCommit):
		tx.fate = unknown
	}
	l.ledger.add(tx)
	if errors.Is(err, errRollback) {
		return nil
	}
	return err
}

func (l *lab) carryOut(ctx context.Context, c change, entry *transaction) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	tx, err := l.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	for _, s := range slices.SortedFunc(keysOf(c.events), compareStreams) {
		if err := l.writeStream(ctx, tx, s, c, entry); err != nil {
			return err
		}
	}
	if c.meanwhile != nil {
		c.meanwhile()
	}
	if _, err := tx.Exec(ctx, "INSERT INTO order_change VALUES ($1)", entry.id); err != nil {
		return err
	}
	if c.rollback {
		return errors.Join(errRollback, tx.Rollback(ctx))
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("%w: %w", errCommit, err)
	}
	return nil
}

// writeStream writes the events of one stream, behind the lock of its order.
func (l *lab) writeStream(ctx context.Context, tx pgx.Tx, s history.Stream, c change, entry *transaction) error {
	var seq int
	if err := tx.QueryRow(ctx, "SELECT seq FROM orders WHERE topic = $1 AND key = $2 FOR UPDATE", s.Topic, s.Key).Scan(&seq); err != nil {
		return err
	}
	if c.undo {
		point, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		undone, err := insert(ctx, point, s, seq, 1, c.size)
		entry.undone = append(entry.undone, undone...)
		if err := errors.Join(err, point.Rollback(ctx)); err != nil {
			return err
		}
	}
	events, err := insert(ctx, tx, s, seq, c.events[s], c.size)
	entry.events = append(entry.events, events...)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "UPDATE orders SET seq = $3 WHERE topic = $1 AND key = $2", s.Topic, s.Key, seq+len(events))
	return err
}

// payload is what a record carries.
type payload struct {
	Seq  int    `json:"seq"`
	Note string `json:"note,omitempty"`
}

// insert writes n events, and returns them whether it has succeeded or not.
func insert(ctx context.Context, tx pgx.Tx, s history.Stream, seq, n, size int) ([]history.Event, error) {
	var events []history.Event
	var rows []outbox.Event
	for i := range n {
		e := history.Event{ID: uuid.New(), Stream: s, Seq: seq + 1 + i}
		events = append(events, e)
		rows = append(rows, outbox.Event{
			ID: e.ID, AggregateType: "Order", AggregateID: s.Key, Type: "order.changed.v1", Topic: s.Topic,
			Payload: payload{Seq: e.Seq, Note: strings.Repeat("x", max(100, size))},
		})
	}
	_, err := outbox.Write(ctx, tx, rows...)
	return events, err
}

func keysOf(m map[history.Stream]int) func(func(history.Stream) bool) {
	return func(yield func(history.Stream) bool) {
		for s := range m {
			if !yield(s) {
				return
			}
		}
	}
}

func compareStreams(a, b history.Stream) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Key, b.Key))
}

// draw draws the next change of a writer.
func (l *lab) draw(r *rand.Rand) change {
	stream := func() history.Stream {
		if r.IntN(5) == 0 {
			return l.streams[0] // a hot key
		}
		return l.streams[r.IntN(len(l.streams))]
	}
	c := change{events: map[history.Stream]int{stream(): 1}}
	switch p := r.IntN(100); {
	case p < 50:
	case p < 65:
		c.events = map[history.Stream]int{stream(): 2 + r.IntN(20)}
	case p < 75:
		for range 1 + r.IntN(3) {
			c.events[stream()] = 1 + r.IntN(3)
		}
	case p < 85:
		c.rollback = true
	case p < 96:
		c.undo = true
	case p < 97:
		c.events = map[history.Stream]int{stream(): 100 + r.IntN(500)}
		c.rollback = r.IntN(2) == 0
	default:
		pause := time.Duration(r.IntN(2000)) * time.Millisecond
		c.meanwhile = func() { <-time.After(pause) }
		c.rollback = r.IntN(5) == 0
	}
	return c
}

// writers write until stopped, each with a generator of its own.
func (l *lab) writers(n int, pace time.Duration, seed uint64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range n {
		r := rand.New(rand.NewPCG(seed, uint64(1000+i)))
		all.Go(func() {
			for ctx.Err() == nil {
				wait := time.Duration(r.Int64N(int64(2 * pace)))
				// An outage of the database is none of the writer's business: it tries the next change a little later.
				if err := l.write(context.WithoutCancel(ctx), l.draw(r)); err != nil {
					wait += 100 * time.Millisecond
				}
				select {
				case <-ctx.Done():
				case <-time.After(wait):
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// openPool has room for all writers.
func openPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 16
	cfg.ConnConfig.RuntimeParams["application_name"] = "writer"
	return pgxpool.NewWithConfig(ctx, cfg)
}
