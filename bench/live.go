package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
)

const (
	// quickPause is as short as the reference's pause can be made without keeping the database busy all the time.
	quickPause = time.Millisecond
	// usualPause is the pause that the reference is configured with.
	usualPause = 500 * time.Millisecond
	// arrivalLimit is how long the last events may take to arrive.
	arrivalLimit = 30 * time.Second
	// opening is how long the writers write before it counts: the first record of each partition of a new topic costs the broker an fsync.
	opening = time.Second
	// warmTime is how long the run takes that warms up.
	warmTime = 100 * time.Millisecond
)

// clocks are the two ways to tell when an event was in Kafka.
type clocks struct {
	// appended counts to the broker's own stamp, which is cut to whole milliseconds: up to 1 ms too little.
	appended spread
	// arrived counts to a consumer that has the record in hand: a little too much.
	arrived spread
}

// live measures how soon an event is in Kafka after its commit.
func (b *bench) live(ctx context.Context) ([]Measure, error) {
	ours := b.relayFollowing()
	others := []subject{b.referenceFollowing(usualPause)}
	if !b.smoke {
		others = append(others, b.referenceFollowing(quickPause))
	}
	all := append([]subject{ours}, others...)
	if err := b.warmUp(all, func(s subject) error { _, err := b.liveOne(ctx, s, warmTime); return err }); err != nil {
		return nil, err
	}
	found := map[string][]clocks{}
	for pair := range b.pairs {
		for _, s := range all {
			c, err := b.liveOne(ctx, s, b.liveFor)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			found[s.name] = append(found[s.name], c)
			b.say("live %d/%d  %-22s arrived %s; appended %s", pair+1, b.pairs, s.name, c.arrived, c.appended)
		}
	}
	var measures []Measure
	for _, other := range others {
		measures = append(measures, liveMeasures(found[ours.name], found[other.name], other.name)...)
	}
	return measures, nil
}

// liveMeasures compares quantile by quantile, by both clocks.
func liveMeasures(ours, others []clocks, against string) []Measure {
	var all []Measure
	for _, clock := range []struct {
		name string
		of   func(clocks) spread
	}{
		{"commit to consumer", func(c clocks) spread { return c.arrived }},
		{"commit to append", func(c clocks) spread { return c.appended }},
	} {
		for _, q := range quantiles() {
			pick := func(runs []clocks) (values []float64) {
				for _, r := range runs {
					values = append(values, milliseconds(q.of(clock.of(r))))
				}
				return values
			}
			m := compare(Measure{Name: "live: " + clock.name + ", " + q.name, Unit: "ms", Against: against, Better: lower}, pick(ours), pick(others))
			m.Judged = against == usualSubject() && q.name == "p50"
			if q.limit > 0 {
				m.aim(fmt.Sprintf("below %s", q.limit), m.Ours.Median < milliseconds(q.limit))
			}
			all = append(all, m)
		}
	}
	return all
}

func usualSubject() string { return fmt.Sprintf("reference, every %s", usualPause) }

// liveOne lets the writers write while the subject publishes.
func (b *bench) liveOne(ctx context.Context, s subject, d time.Duration) (c clocks, err error) {
	err = b.stand.withTopic(ctx, func(topic string) error {
		if err := errors.Join(b.stand.table.clear(ctx), b.stand.table.rest(ctx)); err != nil {
			return err
		}
		l, err := b.stand.listen(ctx, topic)
		if err != nil {
			return err
		}
		defer l.Close()
		commits, err := b.writeAndPublish(ctx, s, load{topic, d}, l)
		if err != nil {
			return err
		}
		c = l.latencies(commits)
		ledger, err := b.stand.table.ledger(ctx)
		if err != nil {
			return err
		}
		return b.stand.verify(ctx, topic, b.stand.table, ledger)
	})
	return c, err
}

// load is where the writers write, and how long.
type load struct {
	topic string
	time  time.Duration
}

// writeAndPublish returns when the measured events were committed and all of them have arrived, with the subject stopped.
func (b *bench) writeAndPublish(ctx context.Context, s subject, load load, l *listener) (commits, error) {
	following, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.run(following) }()
	found, err := b.write(ctx, load, l)
	stop()
	return found, errors.Join(err, <-ended)
}

// write opens the writers, waits until their first events have arrived, and then writes for the opening time and the load's. It returns what
// was committed after the opening.
func (b *bench) write(ctx context.Context, load load, l *listener) (commits, error) {
	w, err := b.stand.openWriters(ctx, b.writers, load.topic)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	first, err := w.each(func(one *writer) error { return one.write(ctx) })
	if err != nil {
		return nil, err
	}
	if err := l.await(ctx, len(first)); err != nil {
		return nil, err
	}
	began := time.Now()
	interval := b.interval()
	found, err := w.each(func(one *writer) error {
		return one.keepWriting(ctx, began.Add(one.offset(interval)), interval, began.Add(opening+load.time))
	})
	if err != nil {
		return nil, err
	}
	if rate := float64(len(found)) / time.Since(began).Seconds(); rate < 0.95*float64(b.rate) {
		b.say("the writers reached only %.0f of %d events/s", rate, b.rate)
	}
	if err := l.await(ctx, len(first)+len(found)); err != nil {
		return nil, err
	}
	maps.DeleteFunc(found, func(_ uuid.UUID, committed time.Time) bool { return committed.Before(began.Add(opening)) })
	return found, nil
}
