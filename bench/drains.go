package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// oneKey measures how much a drain loses when no two events may overtake each other.
func (b *bench) oneKey(ctx context.Context) ([]Measure, error) {
	many := b.usualDrain(b.rows)
	one := many
	one.backlog.keys = 1
	if err := b.warmUpDrains(ctx, many.subject); err != nil {
		return nil, err
	}
	m, err := b.sideBySide(ctx, "onekey", b.once("relay, one key", one), b.once(fmt.Sprintf("relay, %s keys", number(keys)), many),
		Measure{Name: "onekey: all events of one key"})
	if err != nil {
		return nil, err
	}
	m.aim("at least 0.7 of many keys", m.Ratio.Median >= 0.7)
	return []Measure{m}, nil
}

// held measures how much a drain loses while another session keeps an old snapshot, so that no dead row may be removed.
func (b *bench) held(ctx context.Context) ([]Measure, error) {
	without := b.usualDrain(b.rows)
	with := without
	with.during = b.stand.holdSnapshot
	if err := b.warmUpDrains(ctx, without.subject); err != nil {
		return nil, err
	}
	m, err := b.sideBySide(ctx, "held", b.once("relay, held snapshot", with), b.once("relay, none held", without),
		Measure{Name: "held: another session holds a snapshot"})
	if err != nil {
		return nil, err
	}
	m.aim("at least 0.9 of without", m.Ratio.Median >= 0.9)
	return []Measure{m}, nil
}

// holdSnapshot opens a transaction whose snapshot stays, as a long report or a backup has one. It touches no table of ours.
func (s *stand) holdSnapshot(ctx context.Context) (end func() error, err error) {
	conn, err := pgx.Connect(ctx, s.server.URL("postgres"))
	if err != nil {
		return nil, fmt.Errorf("connect to hold a snapshot: %w", err)
	}
	var snapshot string
	if _, err = conn.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ`); err == nil {
		err = conn.QueryRow(ctx, `SELECT pg_current_snapshot()::text`).Scan(&snapshot)
	}
	end = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer cancel()
		return conn.Close(ctx)
	}
	if err != nil {
		_ = end()
		return nil, fmt.Errorf("hold a snapshot: %w", err)
	}
	return end, nil
}
