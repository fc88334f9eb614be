package benchmark

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Report is what was measured.
type Report struct {
	Database Database   `json:"database"`
	Kafka    Kafka      `json:"kafka"`
	Writer   WriterCost `json:"writer"`
	Drain    Drain      `json:"drain"`
	Latency  Latency    `json:"latency"`
	// Limits say what each of them is limited by, in the order drain, latency, writer.
	Limits []Limit `json:"limits"`
	// StateSchema tells that the schema outbox, which was lacking, has been made; it stays.
	StateSchema bool `json:"state_schema_made"`
}

// makeLimit bounds what makes the scratch schema and topic; it is not interrupted, so that nothing is left half made.
const makeLimit = time.Minute

// Run makes what Plan has said, measures, and removes it again, whatever comes, but for a schema outbox, which others may use by then; a process that is killed leaves it. Plan must have been called, once for each Run. An error of the
// removal is a *[RemovalError].
func (b *Bench) Run(ctx context.Context) (r Report, err error) {
	if b.plan.Schema == "" {
		return r, errors.New("run the bench: call Plan first")
	}
	if err := b.removeLeftovers(ctx, b.plan.Leftovers); err != nil {
		return r, fmt.Errorf("remove what an earlier run left: %w", err)
	}
	b.workers, err = newWorkers(ctx, b.cfg.Pool)
	if err != nil {
		return r, err
	}
	s := &scratch{bench: b}
	defer func() {
		b.workers.close()
		b.cfg.Progress("removing what was made")
		if left := s.remove(ctx); len(left) > 0 {
			err = &RemovalError{err, left}
		}
		r.StateSchema = s.state
	}()
	b.cfg.Progress("making the scratch schema and topic")
	if err := b.make(ctx, s); err != nil {
		return r, err
	}
	return r, s.alive.during(ctx, func(ctx context.Context) error { return b.measure(ctx, s.alive, &r) })
}

func (b *Bench) make(ctx context.Context, s *scratch) error {
	making, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeLimit)
	defer cancel()
	if err := s.make(making); err != nil {
		return err
	}
	return ctx.Err()
}

// measure goes from the small to the large, so that each figure can be understood by those before.
func (b *Bench) measure(ctx context.Context, alive *life, r *Report) (err error) {
	begin := func(text string) error {
		b.cfg.Progress(text)
		return alive.ask(ctx)
	}
	if err := begin("measuring single commits and single records"); err != nil {
		return err
	}
	if r.Database, err = b.probeDatabase(ctx); err != nil {
		return err
	}
	if r.Kafka, err = b.probeKafka(ctx); err != nil {
		return err
	}
	if err := begin("measuring what an event costs its writer"); err != nil {
		return err
	}
	if r.Writer, err = b.writerCost(ctx); err != nil {
		return err
	}
	if err := begin(fmt.Sprintf("writing a backlog of %d events", b.cfg.Events)); err != nil {
		return err
	}
	if err := b.fill(ctx); err != nil {
		return err
	}
	if err := begin("draining it"); err != nil {
		return err
	}
	if r.Drain, err = b.drain(ctx); err != nil {
		return err
	}
	if err := begin(fmt.Sprintf("writing %d transactions a second for %s, to see how soon they are in Kafka", b.cfg.Rate, opening+b.cfg.Duration)); err != nil {
		return err
	}
	if r.Latency, err = b.live(ctx); err != nil {
		return err
	}
	if err := alive.ask(ctx); err != nil {
		return err
	}
	r.Limits = limits(*r)
	return nil
}
