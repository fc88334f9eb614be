package benchmark

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"
)

// Spread is where measured durations lie.
type Spread struct{ P50, P95, P99, Most time.Duration }

// MarshalJSON writes milliseconds, to the microsecond.
func (s Spread) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]float64{"p50_ms": millis(s.P50), "p95_ms": millis(s.P95), "p99_ms": millis(s.P99), "max_ms": millis(s.Most)})
}

func millis(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}

func spreadOf(values []time.Duration) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	return Spread{rank(values, 0.50), rank(values, 0.95), rank(values, 0.99), values[len(values)-1]}
}

// rank is the smallest of the sorted values that at least the share q does not exceed.
func rank(sorted []time.Duration, q float64) time.Duration {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// The most that one probe takes: so many samples, or so long, but never fewer than the fewest.
const (
	mostSamples   = 200
	fewestSamples = 5
	sampleTime    = 1500 * time.Millisecond
)

// sample measures something again and again.
func sample(ctx context.Context, do func() error) (Spread, error) {
	var values []time.Duration
	for began := time.Now(); len(values) < mostSamples && (len(values) < fewestSamples || time.Since(began) < sampleTime); {
		if err := ctx.Err(); err != nil {
			return Spread{}, err
		}
		at := time.Now()
		if err := do(); err != nil {
			return Spread{}, err
		}
		values = append(values, time.Since(at))
	}
	return spreadOf(values), nil
}
