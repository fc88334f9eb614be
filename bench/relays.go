package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

const (
	// drainLimit is how long a backlog may take.
	drainLimit = 5 * time.Minute
	// frozenLease is a lease that the relays cannot lose while they are frozen.
	frozenLease = time.Minute
)

// relays measures what several relay processes make of one backlog together. More than one gain nothing where one keeps the machine busy:
// what counts is that sharing the lanes costs little.
func (b *bench) relays(ctx context.Context) (all []Measure, err error) {
	err = b.withProgram(ctx, func(p program) error {
		one := b.together(p, 1)
		turns := []turn{one, b.together(p, 2), b.together(p, 4)}
		if !b.smoke {
			if _, err := b.togetherOnce(ctx, p, 1, warmRows); err != nil {
				return fmt.Errorf("warm up: %w", err)
			}
		}
		rates, err := b.inTurns(ctx, "relays", "events/s", turns...)
		if err != nil {
			return err
		}
		for _, t := range turns[1:] {
			m := compare(Measure{Name: "relays: " + t.name + ", together", Unit: "events/s", Against: one.name, Better: higher}, rates[t.name], rates[one.name])
			m.aim("at least 0.85 of one relay", m.Ratio.Median >= 0.85)
			all = append(all, m)
		}
		return nil
	})
	return all, err
}

func (b *bench) together(p program, n int) turn {
	name := "one relay"
	if n > 1 {
		name = fmt.Sprintf("%d relays", n)
	}
	return turn{name, func(ctx context.Context) (float64, error) { return b.togetherOnce(ctx, p, n, b.relayRows) }}
}

// togetherOnce returns events a second of n relays that have shared out the lanes. They are frozen while the backlog is written, for much less
// than their leases last, so that all of them find it at the same time.
func (b *bench) togetherOnce(ctx context.Context, p program, n, rows int) (rate float64, err error) {
	s := b.stand
	err = s.withTopic(ctx, func(topic string) error {
		if err := s.table.clear(ctx); err != nil {
			return err
		}
		team, err := p.startTeam(ctx, n, "--lease-ttl", frozenLease.String())
		if err != nil {
			return err
		}
		defer team.kill()
		if err := team.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		l, err := s.table.fill(ctx, backlog{topic: topic, rows: rows})
		if err != nil {
			return err
		}
		if err := s.table.rest(ctx); err != nil {
			return err
		}
		began := time.Now()
		if err := team.signal(syscall.SIGCONT); err != nil {
			return err
		}
		ended, err := s.settledAt(ctx, team, topic, len(l))
		if err != nil {
			return err
		}
		rate = float64(len(l)) / ended.Sub(began).Seconds()
		if err := team.stop(ctx); err != nil {
			return err
		}
		return s.verify(ctx, topic, s.table, l)
	})
	return rate, err
}

// settledAt waits until all is settled and returns when the last event was, as its row tells. The waiting asks the table nothing before the
// records are all there: that would slow the relays down.
func (s *stand) settledAt(ctx context.Context, t team, topic string, n int) (time.Time, error) {
	err := poll(ctx, drainLimit, func() (bool, error) {
		if err := t.alive(); err != nil {
			return false, err
		}
		size, err := s.topicSize(ctx, topic)
		return size >= n, err
	})
	if err == nil {
		err = poll(ctx, drainLimit, func() (bool, error) {
			left, err := s.table.unsettled(ctx)
			return left == 0, err
		})
	}
	var last time.Time
	if err == nil {
		err = s.pool.QueryRow(ctx, `SELECT max(published_at) FROM `+s.table.name+` WHERE id > $1`, s.table.after).Scan(&last)
	}
	if err != nil {
		return last, fmt.Errorf("wait for the end of the backlog: %w", err)
	}
	return last, nil
}
