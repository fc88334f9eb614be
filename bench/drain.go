package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	"github.com/outbox-relay/outbox/postgres"
)

// warmRows is the backlog of the run that warms up.
const warmRows = 10_000

// drain measures how fast a backlog goes.
func (b *bench) drain(ctx context.Context) ([]Measure, error) {
	mark, remove, other := b.relayOnce(postgres.Mark), b.relayOnce(postgres.Delete), b.referenceOnce()
	if err := b.warmUpDrains(ctx, mark, other, remove); err != nil {
		return nil, err
	}
	mark.run = b.profiled(mark.run)
	var turns []turn
	for _, s := range []subject{mark, other, remove} {
		d := b.usualDrain(b.rows)
		d.subject = s
		turns = append(turns, b.once(s.name, d))
	}
	rates, err := b.inTurns(ctx, "drain", "events/s", turns...)
	if err != nil {
		return nil, err
	}
	measure := func(s subject) Measure {
		return compare(Measure{Name: "drain: " + s.name, Unit: "events/s", Against: other.name, Better: higher, Judged: true}, rates[s.name], rates[other.name])
	}
	first := measure(mark)
	first.aim("at least 3 times the reference", first.Ratio.Median >= 3)
	return []Measure{first, measure(remove)}, nil
}

// warmUpDrains lets each subject drain a small backlog.
func (b *bench) warmUpDrains(ctx context.Context, subjects ...subject) error {
	return b.warmUp(subjects, func(s subject) error {
		d := b.usualDrain(warmRows)
		d.subject = s
		_, err := b.drainOne(ctx, d)
		return err
	})
}

// drainOne returns events a second, from cold connections until everything is settled and closed.
func (b *bench) drainOne(ctx context.Context, d draining) (rate float64, err error) {
	err = b.stand.withTopic(ctx, func(topic string) (err error) {
		if !d.keep {
			if err := d.table.clear(ctx); err != nil {
				return err
			}
		}
		end, err := d.begin(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
		if d.restFirst {
			if err := d.table.rest(ctx); err != nil {
				return err
			}
		}
		d.backlog.topic = topic
		l, err := d.table.fill(ctx, d.backlog)
		if err != nil {
			return err
		}
		if !d.restFirst {
			if err := d.table.rest(ctx); err != nil {
				return err
			}
		}
		began := time.Now()
		if err := d.subject.run(ctx); err != nil {
			return err
		}
		rate = float64(len(l)) / time.Since(began).Seconds()
		return b.stand.verify(ctx, topic, d.table, l)
	})
	return rate, err
}

// begin begins what lasts for the whole run, if there is something.
func (d draining) begin(ctx context.Context) (end func() error, err error) {
	if d.during == nil {
		return func() error { return nil }, nil
	}
	return d.during(ctx)
}

// profiled writes a CPU profile of the first run, if one is wanted.
func (b *bench) profiled(run func(context.Context) error) func(context.Context) error {
	done := b.cpuProfile == ""
	return func(ctx context.Context) error {
		if done {
			return run(ctx)
		}
		done = true
		f, err := os.Create(b.cpuProfile)
		if err != nil {
			return fmt.Errorf("make profile: %w", err)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return fmt.Errorf("start profile: %w", err)
		}
		defer pprof.StopCPUProfile()
		return run(ctx)
	}
}
