package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// large measures whether a drain is slower on a table that has grown for long: published rows, of which a hundredth is new, and parked keys.
func (b *bench) large(ctx context.Context) ([]Measure, error) {
	fresh := b.usualDrain(b.largeRows / 100)
	fresh.restFirst = true
	if err := b.warmUpDrains(ctx, fresh.subject); err != nil {
		return nil, err
	}
	ordered, random := b.grown("bench_grown_v7", fresh, false), b.grown("bench_grown_v4", fresh, true)
	if err := b.buildGrown(ctx, ordered, random); err != nil {
		return nil, err
	}
	if err := b.warmUpGrown(ctx, ordered, random); err != nil {
		return nil, err
	}
	base := b.once("relay, fresh table", fresh)
	turns := []turn{base, b.once("relay, version 7 ids", ordered), b.once("relay, version 4 ids", random)}
	rates, err := b.inTurns(ctx, "large", "events/s", turns...)
	if err != nil {
		return nil, err
	}
	var all []Measure
	for i, least := range []float64{0.9, 0.6} {
		t := turns[i+1]
		m := compare(Measure{Name: fmt.Sprintf("large: %s rows, %s", number(float64(b.largeRows)), t.name), Unit: "events/s", Against: base.name, Better: higher},
			rates[t.name], rates[base.name])
		m.aim(fmt.Sprintf("at least %.1f of a fresh table", least), m.Ratio.Median >= least)
		all = append(all, m)
	}
	return all, nil
}

// grown is the usual drain on another table, which keeps what it has.
func (b *bench) grown(name string, usual draining, random bool) draining {
	d := usual
	d.table = &outboxTable{pool: b.stand.pool, name: name}
	d.subject = subject{"relay", b.embed(postgres.Config{Table: "public." + name, Settle: postgres.Mark}, relay.Config{Once: true})}
	d.keep = true
	d.backlog.random = random
	return d
}

// buildGrown makes the tables at the same time, one processor each.
func (b *bench) buildGrown(ctx context.Context, all ...draining) error {
	began := time.Now()
	if err := b.stand.makeTopic(ctx, parkedTopic); err != nil {
		return err
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, d := range all {
		wg.Go(func() {
			g := grownTable{stand: b.stand, name: d.table.name, rows: b.largeRows, parked: b.parked, events: b.parkedEvents, random: d.backlog.random}
			errs[i] = g.build(ctx)
		})
	}
	wg.Wait()
	// What was made fills the system's memory with pages to be written: the first run would wait for them.
	if err := b.stand.table.rest(ctx); err != nil {
		errs = append(errs, err)
	}
	b.say("large: %d tables of %s rows, made in %s", len(all), number(float64(b.largeRows)), time.Since(began).Round(time.Second))
	return errors.Join(errs...)
}

// warmUpGrown lets the relay drain a small backlog from each of the tables: the first publication of a source is a special one.
func (b *bench) warmUpGrown(ctx context.Context, all ...draining) error {
	if b.smoke {
		return nil
	}
	for _, d := range all {
		d.backlog.rows = warmRows
		if _, err := b.drainOne(ctx, d); err != nil {
			return fmt.Errorf("warm up %s: %w", d.table.name, err)
		}
	}
	return nil
}
