package main

import (
	"context"
	"fmt"

	"github.com/outbox-relay/outbox/postgres"
)

// turn is one of the things that are compared, and how it is measured once.
type turn struct {
	name string
	run  func(ctx context.Context) (float64, error)
}

// figures are the values of all pairs by the names of the turns.
type figures map[string][]float64

// inTurns measures the turns one after the other, A B A B, as often as there are pairs.
func (b *bench) inTurns(ctx context.Context, part, unit string, turns ...turn) (figures, error) {
	found := figures{}
	for pair := range b.pairs {
		for _, t := range turns {
			value, err := t.run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			found[t.name] = append(found[t.name], value)
			b.say("%s %d/%d  %-30s %10s %s", part, pair+1, b.pairs, t.name, number(value), unit)
		}
	}
	return found, nil
}

// draining is a drain in which one thing differs from the usual one.
type draining struct {
	subject subject
	table   *outboxTable
	backlog backlog // the topic is the run's
	// keep leaves in the table what earlier runs have published.
	keep bool
	// restFirst lets the server rest before the backlog is written and not after it. An event is settled soon after it was written: the pages that hold
	// its index entries were written whole to the log by then, and are not again.
	restFirst bool
	// during, when not nil, is held open from before the backlog is written until the run has ended.
	during func(ctx context.Context) (end func() error, err error)
}

// usualDrain is a backlog of the given size in the stand's table, settled by marking.
func (b *bench) usualDrain(rows int) draining {
	return draining{subject: b.relayOnce(postgres.Mark), table: b.stand.table, backlog: backlog{rows: rows}}
}

// sideBySide measures two drains in turns and compares the first with the second.
func (b *bench) sideBySide(ctx context.Context, part string, ours, other turn, m Measure) (Measure, error) {
	found, err := b.inTurns(ctx, part, "events/s", ours, other)
	if err != nil {
		return m, err
	}
	m.Unit, m.Better, m.Against = "events/s", higher, other.name
	return compare(m, found[ours.name], found[other.name]), nil
}

// once returns the drain as a turn.
func (b *bench) once(name string, d draining) turn {
	return turn{name, func(ctx context.Context) (float64, error) { return b.drainOne(ctx, d) }}
}
