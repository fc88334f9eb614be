package demo

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Summary is what the demo found out. Its JSON keys are a contract.
type Summary struct {
	Written      int     `json:"written"`
	RolledBack   int     `json:"rolled_back"`
	Published    int     `json:"published"`
	Consumed     int     `json:"consumed"`
	Lost         int     `json:"lost"`
	Duplicates   int     `json:"duplicates"`
	OutOfOrder   int     `json:"out_of_order"`
	LatencyP50MS float64 `json:"latency_p50_ms"`
	LatencyP99MS float64 `json:"latency_p99_ms"`
	// Uncommitted counts events that arrived although their transaction was rolled back.
	Uncommitted int `json:"-"`
}

// Sound tells that every promise was kept.
func (s Summary) Sound() bool { return s.Lost == 0 && s.OutOfOrder == 0 && s.Uncommitted == 0 }

// ledger holds what the writers did against what the consumer saw.
type ledger struct {
	mu         sync.Mutex
	committed  map[uuid.UUID]time.Time
	rolledBack map[uuid.UUID]struct{}
	seen       map[uuid.UUID]time.Time
	// last is the highest version of each order that has arrived.
	last                   map[string]int64
	duplicates, outOfOrder int
	latencies              []float32
}

func newLedger() *ledger {
	return &ledger{
		committed:  map[uuid.UUID]time.Time{},
		rolledBack: map[uuid.UUID]struct{}{},
		seen:       map[uuid.UUID]time.Time{},
		last:       map[string]int64{},
	}
}

// commit notes a committed event; at is when COMMIT had returned. The event may have arrived before.
func (l *ledger) commit(id uuid.UUID, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed[id] = at
	if arrived, ok := l.seen[id]; ok {
		l.measure(arrived.Sub(at))
	}
}

func (l *ledger) rollBack(id uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rolledBack[id] = struct{}{}
}

// arrive notes a record. Only first arrivals count for order: a repeated event is a duplicate and nothing else.
func (l *ledger) arrive(id uuid.UUID, order string, version int64, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, dup := l.seen[id]; dup {
		l.duplicates++
		return
	}
	l.seen[id] = at
	if version <= l.last[order] {
		l.outOfOrder++
	} else {
		l.last[order] = version
	}
	if committed, ok := l.committed[id]; ok {
		l.measure(at.Sub(committed))
	}
}

// measure notes a latency. A record may arrive before its writer has come back from COMMIT: that is no time at all, not a negative one.
func (l *ledger) measure(d time.Duration) {
	l.latencies = append(l.latencies, max(0, float32(d.Seconds()*1000)))
}

// missing is how many committed events have not arrived.
func (l *ledger) missing() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for id := range l.committed {
		if _, ok := l.seen[id]; !ok {
			n++
		}
	}
	return n
}

// counts are cheap enough for a live line; the percentiles are those of the last second or so.
func (l *ledger) counts() (s Summary) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const recent = 1000
	s = Summary{Written: len(l.committed), RolledBack: len(l.rolledBack), Consumed: len(l.seen) + l.duplicates, Duplicates: l.duplicates, OutOfOrder: l.outOfOrder}
	s.LatencyP50MS, s.LatencyP99MS = percentiles(l.latencies[max(0, len(l.latencies)-recent):])
	return s
}

func (l *ledger) summary(published int) Summary {
	s := l.counts()
	s.Published = published
	s.Lost = l.missing()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.rolledBack {
		if _, ok := l.seen[id]; ok {
			s.Uncommitted++
		}
	}
	s.LatencyP50MS, s.LatencyP99MS = percentiles(l.latencies)
	return s
}

func percentiles(latencies []float32) (p50, p99 float64) {
	if len(latencies) == 0 {
		return 0, 0
	}
	sorted := slices.Clone(latencies)
	slices.Sort(sorted)
	at := func(p float64) float64 {
		v := float64(sorted[min(len(sorted)-1, int(p*float64(len(sorted))))])
		return float64(int(v*100+0.5)) / 100
	}
	return at(0.50), at(0.99)
}
