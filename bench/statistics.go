package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// spread is where the measured values of one run lie.
type spread struct{ p50, p95, p99 time.Duration }

func (s spread) String() string {
	return fmt.Sprintf("p50 %.1f p95 %.1f p99 %.1f ms", milliseconds(s.p50), milliseconds(s.p95), milliseconds(s.p99))
}

func spreadOf(values []time.Duration) spread {
	slices.Sort(values)
	return spread{rank(values, 0.50), rank(values, 0.95), rank(values, 0.99)}
}

// rank returns the smallest of the sorted values that at least the share q does not exceed; 0 of none.
func rank(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// quantile is one of a spread, and what it must stay below by both clocks; 0: no limit.
type quantile struct {
	name  string
	of    func(spread) time.Duration
	limit time.Duration
}

func quantiles() []quantile {
	return []quantile{
		{"p50", func(s spread) time.Duration { return s.p50 }, 5 * time.Millisecond},
		{"p95", func(s spread) time.Duration { return s.p95 }, 0},
		{"p99", func(s spread) time.Duration { return s.p99 }, 30 * time.Millisecond},
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// median is the middle value, or the mean of the two in the middle; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
