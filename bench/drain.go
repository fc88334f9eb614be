package main

import (
	"context"
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
	if err := b.warmUp([]subject{mark, other, remove}, func(s subject) error { _, err := b.drainOne(ctx, s, warmRows); return err }); err != nil {
		return nil, err
	}
	mark.run = b.profiled(mark.run)
	rates := map[string][]float64{}
	for pair := range b.pairs {
		for _, s := range []subject{mark, other, remove} {
			rate, err := b.drainOne(ctx, s, b.rows)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			rates[s.name] = append(rates[s.name], rate)
			b.say("drain %d/%d  %-22s %9.0f events/s", pair+1, b.pairs, s.name, rate)
		}
	}
	measure := func(s subject) Measure {
		return compare(Measure{Name: "drain: " + s.name, Unit: "events/s", Against: other.name, Better: higher, Judged: true}, rates[s.name], rates[other.name])
	}
	first := measure(mark)
	first.aim("at least 2.5 times the reference", first.Ratio.Median >= 2.5)
	return []Measure{first, measure(remove)}, nil
}

// drainOne returns events a second, from cold connections until everything is settled and closed.
func (b *bench) drainOne(ctx context.Context, s subject, rows int) (rate float64, err error) {
	err = b.stand.withTopic(ctx, func(topic string) error {
		l, err := b.stand.backlog(ctx, rows, topic)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := s.run(ctx); err != nil {
			return err
		}
		rate = float64(rows) / time.Since(began).Seconds()
		return b.stand.verify(ctx, topic, l)
	})
	return rate, err
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
