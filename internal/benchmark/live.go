package benchmark

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox"
)

// Latency is how soon an event is in Kafka when its transaction has committed.
type Latency struct {
	// Asked is the rate of transactions that was to be, Reached what the writers made of it.
	Asked   int     `json:"rate"`
	Reached float64 `json:"rate_reached"`
	Writers int     `json:"writers"`
	// Events are those that counted; those of the first second do not.
	Events int `json:"events"`
	// Took is from the answer to COMMIT to Kafka's acknowledgement.
	Took Spread `json:"commit_to_acknowledged"`
	// Missing are events that were not acknowledged 30 s after the last commit.
	Missing int `json:"missing"`
	// Read is the mean of the statements that read, in milliseconds.
	Read float64 `json:"read_mean_ms"`
}

const (
	// opening is how long the writers write before it counts.
	opening = time.Second
	// arrivalLimit is how long the last events may take.
	arrivalLimit = 30 * time.Second
)

// live lets writers write at a rate while a relay publishes.
func (b *Bench) live(ctx context.Context) (l Latency, err error) {
	acked := newClock()
	r, err := b.newRelay(false, acked)
	if err != nil {
		return l, err
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() {
		err := r.Run(running)
		stop(err)
		ended <- err
	}()
	l, err = b.writeLive(running, acked)
	l.Read = meanMillis(r.Stats().Measures.Read)
	stop(nil)
	// The relay's own error says more than that of the writers, whom it has stopped.
	if relayed := <-ended; relayed != nil {
		err = relayed
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return l, fmt.Errorf("measure latency: %w", err)
	}
	return l, nil
}

// writeLive waits for the relay by a first event, writes, and waits for the last one.
func (b *Bench) writeLive(ctx context.Context, acked *clock) (l Latency, err error) {
	first := &liveWriter{bench: b, committed: map[uuid.UUID]time.Time{}}
	if first.events, err = outbox.NewWriter(outbox.Config{Schema: b.plan.Schema}); err != nil {
		return l, err
	}
	if err := b.workers.with(ctx, func(conn *pgxpool.Conn) error { return first.write(ctx, conn, 0) }); err != nil {
		return l, err
	}
	if awaitAcks(ctx, acked, first.committed) > 0 {
		return l, errors.Join(ctx.Err(), fmt.Errorf("the first event was not acknowledged within %s", arrivalLimit))
	}
	b.cfg.step("live")
	n := min(writers, b.cfg.Rate)
	all := make([]*liveWriter, n)
	began := time.Now()
	end := began.Add(opening + b.cfg.Duration)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range all {
		all[i] = &liveWriter{bench: b, events: first.events, number: i, of: n, committed: map[uuid.UUID]time.Time{}}
		wg.Go(func() { errs[i] = all[i].keepWriting(ctx, began, end) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return l, err
	}
	committed := map[uuid.UUID]time.Time{}
	for _, w := range all {
		maps.Copy(committed, w.committed)
	}
	reached := float64(len(committed)) / time.Since(began).Seconds()
	maps.DeleteFunc(committed, func(_ uuid.UUID, at time.Time) bool { return at.Before(began.Add(opening)) })
	missing := awaitAcks(ctx, acked, committed)
	return Latency{Asked: b.cfg.Rate, Reached: reached, Writers: n, Events: len(committed), Took: spreadOf(acked.since(committed)), Missing: missing}, nil
}

// awaitAcks returns how many are missing when the limit is over.
func awaitAcks(ctx context.Context, acked *clock, events map[uuid.UUID]time.Time) (missing int) {
	ctx, cancel := context.WithTimeout(ctx, arrivalLimit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for missing = acked.missing(events); missing > 0; missing = acked.missing(events) {
		select {
		case <-ctx.Done():
			return missing
		case <-tick.C:
		}
	}
	return 0
}

// liveWriter is one of several that write on one connection each.
type liveWriter struct {
	bench      *Bench
	events     *outbox.Writer
	number, of int
	// committed is when the COMMIT of each event was answered.
	committed map[uuid.UUID]time.Time
}

// keepWriting begins a transaction at each multiple of the interval, or at once when that has passed: a slow commit is caught up with.
func (w *liveWriter) keepWriting(ctx context.Context, began, end time.Time) error {
	interval := time.Duration(w.of) * time.Second / time.Duration(w.bench.cfg.Rate)
	return w.bench.workers.with(ctx, func(conn *pgxpool.Conn) error {
		n := w.number
		for next := began.Add(interval * time.Duration(w.number) / time.Duration(w.of)); next.Before(end) && time.Now().Before(end); next = next.Add(interval) {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Until(next)):
			}
			if err := w.write(ctx, conn, n); err != nil {
				return err
			}
			n += w.of
		}
		return nil
	})
}

func (w *liveWriter) write(ctx context.Context, conn *pgxpool.Conn, n int) error {
	id := uuid.Must(uuid.NewV7())
	if err := w.bench.change(ctx, conn, w.events, id, n); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	w.committed[id] = time.Now()
	return nil
}
