package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox/competing"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// pass is one transaction of a competing relay.
type pass struct {
	row     pg.Source
	settler *settler
	ask     competing.Ask
	publish func(context.Context, []*relay.Event) []relay.Ref
	// every is how often the transaction is looked at while it waits for Kafka.
	every time.Duration
	// bare has the texts read row by row: together they could not be printed.
	bare bool

	// published tells that publish was called; refs are what it gave, marked how many of them the transaction has marked.
	published bool
	refs      []relay.Ref
	marked    int
	result    competing.Result
}

// holdInterval is well below idle_in_transaction_session_timeout, which would end the transaction and free its rows while Kafka still has them.
const holdInterval = 5 * time.Second

// errHoldLost is the cause with which publish is interrupted.
var errHoldLost = errors.New("the transaction that holds the rows may be gone")

// errOtherColumns tells that the column headers is there and was not read.
var errOtherColumns = errors.New("the table has another set of columns than when it was opened")

// run is the transaction. The pass fails as a whole when its rows may have been let go before they were marked.
func (p *pass) run(ctx context.Context, conn *pgx.Conn) error {
	tx, err := p.begin(ctx, conn)
	if err != nil {
		return err
	}
	events, err := p.lock(ctx, tx)
	if err != nil {
		pg.Rollback(tx)
		return err
	}
	if len(events) == 0 {
		pg.Rollback(tx)
		return nil
	}
	p.published, p.result.Handed = true, len(events)
	if err := p.hold(ctx, tx, events); err != nil {
		pg.Rollback(tx)
		return err
	}
	err = p.mark(ctx, tx)
	if err != nil {
		pg.Rollback(tx)
	}
	if isRowsFault(err) {
		// settleRest finds out which rows the table refuses.
		return nil
	}
	return err
}

// within runs one statement within the limit for one.
func (p *pass) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, pg.CallTimeout)
	defer cancel()
	return do(ctx)
}

func (p *pass) begin(ctx context.Context, conn *pgx.Conn) (tx pgx.Tx, err error) {
	err = p.within(ctx, func(ctx context.Context) error {
		tx, err = conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	return tx, nil
}

// lock takes the next rows that nobody else has.
func (p *pass) lock(ctx context.Context, tx pgx.Tx) (events []*relay.Event, err error) {
	locked := 0
	err = p.within(ctx, func(ctx context.Context) error {
		names := &decoder{names: map[string]string{}}
		bytes := 0
		return p.lockSQL().run(ctx, tx.Conn(), func(v [][]byte) error {
			last := len(v) - 1
			if there := v[last][0] == 1; there != p.row.Headers {
				return errOtherColumns
			}
			locked++
			if bytes > p.ask.Bytes && len(events) > 0 {
				// What is left out is unlocked with the rest, and comes in the next pass.
				return nil
			}
			e := names.event(int64Of(v[0]), v[1:last])
			bytes += e.Size()
			events = append(events, e)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("lock events: %w", err)
	}
	p.result.More = locked == p.ask.Limit || locked > len(events)
	if p.bare {
		return events, p.printEach(ctx, tx, events)
	}
	return events, nil
}

// lockSQL is the statement of every relay of this kind, with what is held, what relays that lease lanes have parked, and what is paused, left out. Ids are in the order of the index, so it reads no more rows than
// it takes, locks or leaves out.
func (p *pass) lockSQL() *statement {
	s := &statement{}
	fmt.Fprintf(&s.text, "SELECT e.id, %s, %s FROM %s e WHERE e.published_at IS NULL AND %s AND %s", p.columns(p.bare), headersSQL(s, p.row.Table), p.row.Table.SQL(), unpausedSQL(s, p.row.ID),
		unparkedSQL(s, p.row.ID))
	if len(p.ask.HeldTopics) > 0 {
		fmt.Fprintf(&s.text, " AND coalesce(e.topic::text, '') <> ALL (%s)", s.param(pgtype.TextArrayOID, p.ask.HeldTopics))
	}
	if len(p.ask.HeldKeys) > 0 {
		topics, keys := make([]string, len(p.ask.HeldKeys)), make([]string, len(p.ask.HeldKeys))
		for i, k := range p.ask.HeldKeys {
			topics[i], keys[i] = k.Topic, k.PartitionKey
		}
		// NOT IN is a filter over a hashed list; NOT EXISTS would be a join, which loses the order of the index.
		fmt.Fprintf(&s.text, " AND (coalesce(e.topic::text, ''), coalesce(e.partition_key::text, '')) NOT IN (SELECT k.topic, k.key FROM unnest(%s::text[], %s::text[]) AS k(topic, key))",
			s.param(pgtype.TextArrayOID, topics), s.param(pgtype.TextArrayOID, keys))
	}
	fmt.Fprintf(&s.text, " ORDER BY e.id LIMIT %s FOR UPDATE OF e SKIP LOCKED", s.bigint(int64(p.ask.Limit)))
	return s
}

// columns are an event's, in the order of decoder.event; the texts are NULL when bare.
func (p *pass) columns(bare bool) string {
	texts := "NULL::text, NULL::text"
	if !bare {
		texts = p.texts()
	}
	return fmt.Sprintf("coalesce(e.event_id, '%s'::uuid), e.event_type::text, e.topic::text, e.partition_key::text, %s, e.created_at", uuid.Nil, texts)
}

// texts are the columns that may be too large to print.
func (p *pass) texts() string {
	if !p.row.Headers {
		return bounded("e.payload") + ", NULL::text"
	}
	return bounded("e.payload") + ", " + bounded("e.headers")
}

// printEach reads the texts of events one by one. Those of an event that cannot be printed stay absent, and the publisher refuses it by itself.
func (p *pass) printEach(ctx context.Context, tx pgx.Tx, events []*relay.Event) error {
	sql := fmt.Sprintf("SELECT %s FROM %s e WHERE e.id = $1 AND e.published_at IS NULL", p.texts(), p.row.Table.SQL())
	for _, e := range events {
		err := p.within(ctx, func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
				return savepoint.QueryRow(ctx, sql, e.ID).Scan(&e.Payload, &e.Headers)
			})
		})
		if err != nil && !unprintable(err) {
			return fmt.Errorf("read event %d: %w", e.ID, err)
		}
	}
	return nil
}

// hold has the events published and looks after the transaction meanwhile.
func (p *pass) hold(ctx context.Context, tx pgx.Tx, events []*relay.Event) error {
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	done := make(chan []relay.Ref, 1)
	go func() { done <- p.publish(ctx, events) }()
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		select {
		case p.refs = <-done:
			return nil
		case <-tick.C:
		}
		err := p.within(ctx, func(ctx context.Context) error {
			_, err := tx.Exec(ctx, "SELECT 1")
			return err
		})
		if err != nil {
			lost(fmt.Errorf("%w: %w", errHoldLost, err))
			p.refs = <-done
			return fmt.Errorf("hold the rows of %d events: %w", len(events), err)
		}
	}
}

// markLockedSQL is as markSQL, and with the time of now: the transaction began before Kafka was asked.
const markLockedSQL = `UPDATE %s t SET published_at = clock_timestamp() WHERE ` + rowsToSettle

// mark writes down what is in Kafka and lets all rows go.
func (p *pass) mark(ctx context.Context, tx pgx.Tx) error {
	if len(p.refs) == 0 {
		return p.within(ctx, tx.Rollback)
	}
	ids, eventIDs := columnsOf(p.refs)
	return p.within(ctx, func(ctx context.Context) error {
		if _, err := tx.Exec(ctx, plainPlan); err != nil {
			return fmt.Errorf("mark events: %w", err)
		}
		tag, err := tx.Exec(ctx, fmt.Sprintf(markLockedSQL, p.row.Table.SQL()), ids, eventIDs)
		if err != nil {
			return fmt.Errorf("mark events: %w", err)
		}
		if !p.settler.begun {
			if _, err := tx.Exec(ctx, beginSQL, p.row.ID); err != nil {
				return fmt.Errorf("write down the first publication: %w", err)
			}
		}
		if err := tx.Commit(ctx); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		p.marked, p.settler.begun = int(tag.RowsAffected()), true
		return nil
	})
}

// settleRest settles what the transaction could not mark because the table refuses some of its rows: the others must not be published again for
// their sake.
func (p *pass) settleRest(ctx context.Context) error {
	p.result.Settled = p.marked
	ctx, cancel := context.WithTimeout(ctx, pg.CallTimeout)
	defer cancel()
	if p.marked > 0 {
		p.settler.note(ctx)
	}
	if p.marked == len(p.refs) {
		return nil
	}
	more, err := p.settler.Settle(ctx, p.refs)
	p.result.Settled += more
	return err
}
