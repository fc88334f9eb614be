package main

import "slices"

// Measure is one comparison: a figure of the relay's beside that of something else, pair by pair; or such a figure alone.
type Measure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Ours and Other have a value for each pair; Against says what the other is, "" when there is none.
	Ours    Series `json:"ours"`
	Against string `json:"against,omitempty"`
	Other   Series `json:"other,omitzero"`
	// Ratio is taken within each pair, by the direction that Better names.
	Better direction `json:"better"`
	Ratio  Ratio     `json:"ratio,omitzero"`
	// Target is what the product wants to reach; "" for none. Met tells whether it did.
	Target string `json:"target,omitempty"`
	Met    bool   `json:"met,omitempty"`
	// Judged measures make a smoke test fail when the ratio is below 1.
	Judged bool `json:"-"`
}

// direction says which values are good ones.
type direction string

const (
	higher direction = "higher"
	lower  direction = "lower"
)

// Series are the values of all pairs.
type Series struct {
	Values []float64 `json:"values"`
	Median float64   `json:"median"`
}

// Ratio tells how many times better the relay's figure is, 2 being twice as good.
type Ratio struct {
	Series
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// resolution stands for values that are nothing or less, as a latency by a clock that is cut to milliseconds can be.
const resolution = 0.001

// compare fills the figures in. Both sides have the same number of values, at least one.
func compare(m Measure, ours, other []float64) Measure {
	m.Ours, m.Other = series(ours), series(other)
	ratios := make([]float64, len(ours))
	for i := range ours {
		a, b := max(ours[i], resolution), max(other[i], resolution)
		if m.Better == lower {
			a, b = b, a
		}
		ratios[i] = a / b
	}
	m.Ratio = Ratio{Series: series(ratios), Min: slices.Min(ratios), Max: slices.Max(ratios)}
	return m
}

// alone fills the figures of a measure in that is compared with nothing but its target. There is at least one value.
func alone(m Measure, ours []float64) Measure {
	m.Ours = series(ours)
	return m
}

func series(values []float64) Series { return Series{Values: values, Median: median(values)} }

// aim writes down a target.
func (m *Measure) aim(target string, met bool) { m.Target, m.Met = target, met }
