package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// team are relay processes on one table.
type team []*process

const (
	// shareLimit is how long the relays may take until each has its share of the lanes.
	shareLimit = 60 * time.Second
	// look is how often something is looked at that takes at least seconds.
	look = 20 * time.Millisecond
)

// startTeam starts n relays and waits until the lanes are shared out among them. The caller must kill the team.
func (p program) startTeam(ctx context.Context, n int, args ...string) (team, error) {
	var t team
	for range n {
		one, err := start(p.relay(ctx, "", args...))
		if err != nil {
			t.kill()
			return nil, err
		}
		t = append(t, one)
	}
	if err := t.shared(ctx, p.s); err != nil {
		t.kill()
		return nil, err
	}
	return t, nil
}

// shared returns when each relay has its share of the lanes, and no lane is free.
func (t team) shared(ctx context.Context, s *stand) error {
	var have shares
	err := poll(ctx, shareLimit, func() (done bool, err error) {
		if err := t.alive(); err != nil {
			return false, err
		}
		have, err = s.shares(ctx)
		return have.fair(len(t)), err
	})
	if err != nil {
		return fmt.Errorf("wait until %d relays share %d lanes (%v): %w", len(t), have.lanes, have.held, err)
	}
	return nil
}

func (t team) alive() error {
	var errs []error
	for _, p := range t {
		errs = append(errs, p.alive())
	}
	return errors.Join(errs...)
}

func (t team) signal(s syscall.Signal) error {
	var errs []error
	for _, p := range t {
		errs = append(errs, p.signal(s))
	}
	return errors.Join(errs...)
}

func (t team) stop(ctx context.Context) error {
	var errs []error
	for _, p := range t {
		errs = append(errs, p.stop(ctx))
	}
	return errors.Join(errs...)
}

func (t team) kill() {
	for _, p := range t {
		p.kill()
	}
}

// shares tells how many lanes each owner has.
type shares struct {
	lanes int
	held  []int
}

// fair tells whether n relays have all lanes, each at most its share.
func (s shares) fair(n int) bool {
	held := 0
	for _, lanes := range s.held {
		if lanes > (s.lanes+n-1)/n {
			return false
		}
		held += lanes
	}
	return len(s.held) == n && held == s.lanes
}

// shares reads who has the lanes of the stand's table.
func (s *stand) shares(ctx context.Context) (shares, error) {
	const sql = `WITH source AS (SELECT id, lanes FROM outbox.source WHERE table_schema = 'public' AND table_name = $1)
SELECT (SELECT lanes FROM source), coalesce(array_agg(n ORDER BY n), '{}') FROM (
  SELECT count(*)::int AS n FROM outbox.lane JOIN source ON source.id = lane.source
  WHERE owner IS NOT NULL AND expires_at > clock_timestamp() GROUP BY owner) o`
	var have shares
	if err := s.pool.QueryRow(ctx, sql, s.table.name).Scan(&have.lanes, &have.held); err != nil {
		return have, fmt.Errorf("read the lanes: %w", err)
	}
	return have, nil
}

// poll asks until it is done, or the limit has passed.
func poll(ctx context.Context, limit time.Duration, ask func() (done bool, err error)) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		if done, err := ask(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return fmt.Errorf("it has not come to that in %s", limit)
		case <-tick.C:
		}
	}
}
