package engine

import (
	"math"
	"sync/atomic"
	"time"
)

// Histogram counts values by how large they are. Any goroutine may add and read at any time, without a lock and without an allocation. A nil Histogram counts nothing.
type Histogram struct {
	bounds []float64
	counts []atomic.Uint64
	// sum holds the bits of a float64.
	sum atomic.Uint64
}

// NewHistogram returns a histogram whose buckets end with the bounds, in ascending order; there is one more above the last.
func NewHistogram(bounds ...float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// NewDurations returns a histogram of how long calls take, in seconds: from half a millisecond to half a minute.
func NewDurations() *Histogram {
	return NewHistogram(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
}

// NewLags returns a histogram of how late events arrive, in seconds: from a millisecond to an hour.
func NewLags() *Histogram {
	return NewHistogram(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)
}

// NewSizes returns a histogram of numbers of events: from one to ten thousand.
func NewSizes() *Histogram {
	return NewHistogram(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
}

// Add counts a value. One below zero counts as zero: what looks as if it had ended before it began was measured by two clocks.
func (h *Histogram) Add(v float64) {
	if h == nil {
		return
	}
	v = max(v, 0)
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	for {
		before := h.sum.Load()
		if h.sum.CompareAndSwap(before, math.Float64bits(math.Float64frombits(before)+v)) {
			return
		}
	}
}

// AddDuration counts how long something took.
func (h *Histogram) AddDuration(d time.Duration) { h.Add(d.Seconds()) }

// Read returns the buckets' bounds, how many values each has, the last being above all bounds, and the sum of all values. What is added meanwhile may be in one and not yet in the
// other.
func (h *Histogram) Read() (bounds []float64, counts []uint64, sum float64) {
	if h == nil {
		return nil, nil, 0
	}
	counts = make([]uint64, len(h.counts))
	for i := range h.counts {
		counts[i] = h.counts[i].Load()
	}
	return h.bounds, counts, math.Float64frombits(h.sum.Load())
}
