package competing

import (
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
	"github.com/outbox-relay/outbox/relay"
)

type counters struct {
	published, settled, unsettled atomic.Int64
	errors                        [relay.ClassUnknown + 1]atomic.Int64
	inFlight, outstanding         atomic.Int64
	// since is when what is outstanding was handed over, in nanoseconds of Unix.
	since, lastAck, lastTurn atomic.Int64
	// unanswered is since when Kafka does not answer what is asked, in the same way; 0 when it answers.
	unanswered atomic.Int64
	leading    atomic.Bool
	lastError  atomic.Pointer[error]
	// connected tells that the source was opened and no term has failed since.
	connected atomic.Bool
	publish   *engine.Histogram
	passed    *engine.Histogram
	topics    engine.Tally
}

func (c *counters) turned(now time.Time) { c.lastTurn.Store(now.UnixNano()) }

func (c *counters) failed(class relay.Class) { c.errors[class].Add(1) }

func (c *counters) sent(now time.Time, events int) {
	c.since.Store(now.UnixNano())
	c.outstanding.Store(int64(events))
	c.passed.Add(float64(events))
}

func (c *counters) answered(now time.Time, topic string, err error) {
	c.outstanding.Add(-1)
	if err == nil {
		c.published.Add(1)
		c.publish.AddDuration(now.Sub(unixNano(c.since.Load())))
		c.topics.Add(topic, 1)
		c.noteAnswer()
		c.lastAck.Store(now.UnixNano())
	}
}

// Stats may be called from any goroutine, at any time. Of [relay.Stats] it fills what exists here: Leading tells that the relay is registered and works,
// as several may at the same time; HeldKeys and HeldTopics are what this relay leaves out for a while, or tries again now; ParkedKeys is 0. Of the measures there are
// Publish, ReadEvents, Topics and Connected.
func (r *Relay) Stats() relay.Stats {
	c := &r.counters
	s := relay.Stats{
		Published:   c.published.Load(),
		Settled:     c.settled.Load(),
		Unsettled:   c.unsettled.Load(),
		Errors:      map[relay.Class]int64{},
		InFlight:    int(c.inFlight.Load()),
		Outstanding: int(c.outstanding.Load()),
		Leading:     c.leading.Load(),
		LastAck:     unixNano(c.lastAck.Load()),
		LastTurn:    unixNano(c.lastTurn.Load()),
	}
	for class := relay.ClassOutage; class <= relay.ClassUnknown; class++ {
		s.Errors[class] = c.errors[class].Load()
	}
	if e := c.lastError.Load(); e != nil {
		s.LastError = *e
	}
	s.HeldKeys, s.HeldTopics = r.held.count()
	s.Measures = relay.Measures{Publish: distribution(c.publish), ReadEvents: distribution(c.passed), Topics: c.topics.Counts(), Connected: c.connected.Load()}
	s.Silent = c.waiting(r.cfg.now())
	s.Stalled = s.Silent >= r.cfg.StallTimeout
	return s
}

func distribution(h *engine.Histogram) (d relay.Distribution) {
	d.Bounds, d.Counts, d.Sum = h.Read()
	return d
}

func unixNano(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}
