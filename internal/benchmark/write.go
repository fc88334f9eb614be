package benchmark

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox"
)

// WriterCost is what an event costs the transaction that writes it, with one writer.
type WriterCost struct {
	// Transactions of each kind, in turns.
	Transactions int `json:"transactions"`
	// Plain is BEGIN, an INSERT of a business row, COMMIT; WithEvent has one statement more, the event's.
	Plain     Spread `json:"without_event"`
	WithEvent Spread `json:"with_event"`
	// Ratio of the two p50.
	Ratio float64 `json:"ratio"`
}

// writerTime bounds the comparison, mostPairs how many transactions of each kind there are.
const (
	writerTime = 3 * time.Second
	mostPairs  = 300
)

// writerCost compares transactions in turns, so that what disturbs the machine disturbs both.
func (b *Bench) writerCost(ctx context.Context) (c WriterCost, err error) {
	w, err := outbox.NewWriter(outbox.Config{Schema: b.plan.Schema})
	if err != nil {
		return c, err
	}
	var plain, with []time.Duration
	err = b.workers.with(ctx, func(conn *pgxpool.Conn) error {
		for began := time.Now(); len(with) < mostPairs && (len(with) < fewestSamples || time.Since(began) < writerTime); {
			at := time.Now()
			if err := b.change(ctx, conn, nil, uuid.Nil, len(with)); err != nil {
				return err
			}
			middle := time.Now()
			if err := b.change(ctx, conn, w, uuid.Must(uuid.NewV7()), len(with)); err != nil {
				return err
			}
			plain, with = append(plain, middle.Sub(at)), append(with, time.Since(middle))
		}
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("measure the writers: %w", err)
	}
	c = WriterCost{Transactions: len(with), Plain: spreadOf(plain), WithEvent: spreadOf(with)}
	c.Ratio = float64(c.WithEvent.P50) / float64(max(1, c.Plain.P50))
	return c, nil
}

// change is a business transaction, with an event when there is a writer for it.
func (b *Bench) change(ctx context.Context, conn *pgxpool.Conn, w *outbox.Writer, id uuid.UUID, n int) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO "+pgx.Identifier{b.plan.Schema, "business"}.Sanitize()+" (customer, total) VALUES ($1, $2)", "somebody", n); err != nil {
			return err
		}
		if w == nil {
			return nil
		}
		_, err := w.Write(ctx, tx, outbox.Event{
			ID: id, AggregateType: "Bench", AggregateID: strconv.Itoa(n), Type: eventType, Topic: b.plan.Topic,
			PartitionKey: "key-" + strconv.Itoa(n%b.cfg.Keys), Payload: b.payload(n),
		})
		return err
	})
}
