package relay

import (
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// Distribution is how many values there were of which size.
type Distribution struct {
	// Bounds are the upper bounds of the buckets, ascending; Counts how many values each bucket has, the last one being for what is above all bounds. Both are nil where
	// nothing of the kind is measured.
	Bounds []float64
	Counts []uint64
	// Sum is that of all values.
	Sum float64
}

// Measures are what a relay measures of its work since it was made. Durations are in seconds.
type Measures struct {
	// Lag is how long events took from created_at, the start of the writer's transaction, to Kafka's acknowledgement, all by the database's clock.
	Lag Distribution
	// ReadEvents is how many events a read has brought, of those that have brought any.
	ReadEvents Distribution
	// Read and Settle are how long the statements took that read and settle, in vain or not. Publish is how long events were with the publisher, from being handed over to the
	// acknowledgement.
	Read, Settle, Publish Distribution
	// LanesTaken, LanesReturned and LanesLost count lanes that this relay has got, handed back, and lost to the end of a lease.
	LanesTaken, LanesReturned, LanesLost int64
	// Letters counts letters that a dead-letter topic has acknowledged.
	Letters int64
	// Topics counts the published events by topic: of the first hundred topics, and of all others together as "(other)".
	Topics map[string]int64
	// Holes is how many ranges of ids were passed over whose rows may still appear.
	Holes int
	// Connected tells that the relay has opened its source and no term has failed since.
	Connected bool
	// SourceLanes is how many lanes the source has; 0 until it was opened.
	SourceLanes int
}

// measures are what Measures is read from. The zero measures count, but nothing that needs a histogram.
type measures struct {
	lag, readEvents, read, settle, publish *engine.Histogram

	taken, returned, lost, letters atomic.Int64
	topics                         engine.Tally
	holes, sourceLanes             atomic.Int64
	connected                      atomic.Bool
	// ahead is how far the database's clock is ahead of this process's, in nanoseconds, as the last read has shown; valid when aheadKnown.
	ahead      atomic.Int64
	aheadKnown atomic.Bool
}

func (m *measures) init() {
	m.lag, m.readEvents = engine.NewLags(), engine.NewSizes()
	m.read, m.settle, m.publish = engine.NewDurations(), engine.NewDurations(), engine.NewDurations()
}

// noteRead takes what a read has shown: how long it took, how much it brought, and how far apart the two clocks are. The database looks at its clock somewhere between asked and
// answered, so what is assumed is wrong by half of that time at most.
func (m *measures) noteRead(asked, answered time.Time, b Batch, err error) {
	m.read.AddDuration(answered.Sub(asked))
	if err != nil {
		return
	}
	m.holes.Store(int64(b.Holes))
	if len(b.Events) > 0 {
		m.readEvents.Add(float64(len(b.Events)))
	}
	if !b.Now.IsZero() {
		m.ahead.Store(int64(b.Now.Sub(asked.Add(answered.Sub(asked) / 2))))
		m.aheadKnown.Store(true)
	}
}

// noteAcked counts an acknowledged event's lag. A created_at that is no moment says nothing.
func (m *measures) noteAcked(e *Event, now time.Time) {
	if !e.CreatedAt.IsZero() && m.aheadKnown.Load() {
		m.lag.AddDuration(now.Add(time.Duration(m.ahead.Load())).Sub(e.CreatedAt))
	}
}

// noteTopics counts the acknowledged events of outcomes by their topics, those of one topic in a row together.
func (m *measures) noteTopics(outcomes []outcome) {
	topic, n := "", int64(0)
	for _, o := range outcomes {
		if o.err != nil {
			continue
		}
		if o.event.Topic != topic && n > 0 {
			m.topics.Add(topic, n)
			n = 0
		}
		topic = o.event.Topic
		n++
	}
	if n > 0 {
		m.topics.Add(topic, n)
	}
}

func (m *measures) snapshot() Measures {
	return Measures{
		Lag:           distribution(m.lag),
		ReadEvents:    distribution(m.readEvents),
		Read:          distribution(m.read),
		Settle:        distribution(m.settle),
		Publish:       distribution(m.publish),
		LanesTaken:    m.taken.Load(),
		LanesReturned: m.returned.Load(),
		LanesLost:     m.lost.Load(),
		Letters:       m.letters.Load(),
		Topics:        m.topics.Counts(),
		Holes:         int(m.holes.Load()),
		Connected:     m.connected.Load(),
		SourceLanes:   int(m.sourceLanes.Load()),
	}
}

func distribution(h *engine.Histogram) (d Distribution) {
	d.Bounds, d.Counts, d.Sum = h.Read()
	return d
}
