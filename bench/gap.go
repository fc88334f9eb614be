package main

import (
	"errors"
	"slices"
	"time"

	"github.com/outbox-relay/outbox/relay"
)

// gap is what the topic shows of a take-over, counted from the signal.
type gap struct {
	// first and every tell when the next relay's first record was appended: of any of the lanes, and of the last one.
	first, every time.Duration
	// wait is how long the event that waited longest waited, from its commit.
	wait time.Duration
}

// victim is the relay that is ended: the lanes that it has, of how many, and the producer ids by which its records are known.
type victim struct {
	lanes     map[int]bool
	of        int
	producers map[int64]bool
}

func (v victim) lane(a arrival) int { return int(relay.Lane(a.key, v.of)) }

// producers returns who has published the newest record of each of the victim's lanes so far; nil unless all lanes have one. Each client of Kafka
// has a producer id of its own, and each record tells it.
func (l *listener) producers(v victim) map[int64]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := map[int]arrival{}
	for _, a := range l.seen {
		lane := v.lane(a)
		if have, ok := newest[lane]; v.lanes[lane] && (!ok || a.arrived.After(have.arrived)) {
			newest[lane] = a
		}
	}
	if len(newest) < len(v.lanes) {
		return nil
	}
	ids := map[int64]bool{}
	for _, a := range newest {
		ids[a.producer] = true
	}
	return ids
}

// taken returns when the first record by another relay than the victim was appended after the signal, for each of the victim's lanes.
func (l *listener) taken(v victim, signal time.Time) map[int]time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := map[int]time.Time{}
	for _, a := range l.seen {
		lane := v.lane(a)
		// The broker's stamp is cut to milliseconds.
		if !v.lanes[lane] || v.producers[a.producer] || a.appended.Before(signal.Truncate(time.Millisecond)) {
			continue
		}
		if have, ok := first[lane]; !ok || a.appended.Before(have) {
			first[lane] = a.appended
		}
	}
	return first
}

// gap is what the take-over was like, with what was committed when.
func (l *listener) gap(done commits, signal time.Time, v victim) (gap, error) {
	var took []time.Duration
	for _, at := range l.taken(v, signal) {
		took = append(took, at.Sub(signal))
	}
	if len(took) == 0 {
		return gap{}, errors.New("no record tells of another relay")
	}
	g := gap{first: slices.Min(took), every: slices.Max(took)}
	l.mu.Lock()
	defer l.mu.Unlock()
	for event, committed := range done {
		if a := l.seen[event]; v.lanes[v.lane(a)] {
			g.wait = max(g.wait, a.appended.Sub(committed))
		}
	}
	return g, nil
}
