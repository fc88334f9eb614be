package relay

import (
	"sync/atomic"
	"time"
)

// Stats is a snapshot of what a relay has done since it was made, and of what it is doing now.
type Stats struct {
	// Published counts events that Kafka has acknowledged, Settled those that are written down, ForeignSettles those that somebody else had
	// settled before, or deleted. Unsettled counts those that are in Kafka and whose rows cannot be marked: a constraint, a trigger or row-level
	// security is in the way; they will be published again after a restart, or when their lane moves to another relay.
	Published, Settled, ForeignSettles, Unsettled int64
	// Errors counts failures to publish by class.
	Errors map[Class]int64
	// SweepFinds counts forgotten events that the sweep found; it must normally be 0.
	SweepFinds int64
	// InFlight is how many events are read and not settled, Outstanding how many of them are with Kafka.
	InFlight, Outstanding int
	// ParkedKeys is how many keys wait for an operator.
	ParkedKeys int
	// HeldKeys is how many keys a relay of package competing leaves out because one of their events has failed: it parks none, and tries them again by
	// itself. It is 0 for a relay of this package.
	HeldKeys int
	// HeldTopics tells why each topic that cannot be published to is held.
	HeldTopics map[string]error
	// Paused tells that operators have paused the source, PausedTopics which topics, and PausedKeys how many keys. They are neither parked nor held.
	Paused       bool
	PausedTopics []string
	PausedKeys   int
	// OpenWriters is how many transactions have drawn an id and not ended, as far as the reader has to wait for them.
	OpenWriters int
	// Leading tells that this relay may publish. Lanes is how many lanes it has; when it waits for some, Waiting names a relay that has them.
	Leading bool
	Lanes   int
	Waiting string
	// LastAck is when Kafka acknowledged something last; zero if never. LastTurn is when the reader's loop turned last: every
	// second or PollInterval, whichever is longer, while the relay works.
	LastAck, LastTurn time.Time
	// Silent is how long events have been outstanding without any answer of Kafka; 0 while none are outstanding. Stalled tells that it is StallTimeout or more.
	Silent  time.Duration
	Stalled bool
	// Dead counts events that this relay has moved to the dead ones by policy. DelayedKeys is how many keys wait for the next attempt with an event.
	Dead        int64
	DelayedKeys int
	// LastError is what ended the last term; nil when the relay works.
	LastError error
	// Measures are what the relay measures of its work. A relay of package competing measures a part of it.
	Measures Measures
}

type counters struct {
	published, settled, foreign, unsettled, sweepFinds, dead atomic.Int64
	errors                                                   [ClassUnknown + 1]atomic.Int64
	openWriters                                              atomic.Int64
	lastAck, lastTurn                                        atomic.Int64
	gate                                                     atomic.Pointer[gate]
	lanes                                                    atomic.Int64
	waiting                                                  atomic.Pointer[string]
	lastError                                                atomic.Pointer[error]
	measures
}

// Stats may be called from any goroutine, at any time.
func (r *Relay) Stats() Stats {
	c := &r.counters
	s := Stats{
		Published:      c.published.Load(),
		Settled:        c.settled.Load(),
		ForeignSettles: c.foreign.Load(),
		Unsettled:      c.unsettled.Load(),
		SweepFinds:     c.sweepFinds.Load(),
		Dead:           c.dead.Load(),
		Errors:         map[Class]int64{},
		OpenWriters:    int(c.openWriters.Load()),
		Leading:        c.lanes.Load() > 0,
		Lanes:          int(c.lanes.Load()),
		LastAck:        unixNano(c.lastAck.Load()),
		LastTurn:       unixNano(c.lastTurn.Load()),
		Measures:       c.measures.snapshot(),
	}
	for class := ClassOutage; class <= ClassUnknown; class++ {
		s.Errors[class] = c.errors[class].Load()
	}
	if w := c.waiting.Load(); w != nil {
		s.Waiting = *w
	}
	if e := c.lastError.Load(); e != nil {
		s.LastError = *e
	}
	if g := c.gate.Load(); g != nil {
		s.InFlight, s.Outstanding = g.load()
		s.ParkedKeys = g.parkedKeys()
		s.HeldTopics = g.topicErrors()
		s.Paused, s.PausedTopics, s.PausedKeys = g.pausedNow()
		s.Silent = g.silentFor()
		s.Stalled = s.Silent >= r.cfg.StallTimeout
		s.DelayedKeys = g.delayedKeys()
	}
	return s
}

func unixNano(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}
